from __future__ import annotations

import textwrap

import pytest

from tests.migrate.rewriting import rewritten, trial

MODEL = "        self.model = context.wrap_model(torch.nn.Linear(2, 1))\n"
AGAIN = "for key in self.nets:\n    self.nets[key] = wrap(self.nets[key])"
METHODS = """
    def one(self):
        return self.context.wrap_model(torch.nn.Linear(2, 1))

    def two(self):
        made = self.context.wrap_model(torch.nn.Linear(2, 1))
        return made, self.context.wrap_model(torch.nn.Linear(2, 1))

    def boxed(self, show=None):
        if show is not None:
            self.box = show(torch.nn.Linear(2, 1)), show(torch.nn.Linear(2, 1))

    def build_training"""


@pytest.mark.parametrize(
    ("lines", "is_shown"),
    [
        ("self.nets = [wrap(net()), wrap(net())]", False),
        ("nets = [wrap(net()) for _ in range(2)]\nself.nets = nets", True),
        ("self.nets = wrap(net()), wrap(net())", True),
        ("self.nets = {'a': [wrap(net()) for _ in range(2)]}", True),
        ("self.nets = [wrap(net())] + [wrap(net())]", True),
        ("self.nets, self.n = [], 2\nfor _ in range(2):\n    self.nets.append(wrap(net()))", False),
        ("def own(model):\n    return wrap(model)\nself.nets = [own(net()), own(net())]", False),
        ("self.nets: dict = {k: wrap(net()) for k in ('a', 'b')}", False),
        ("self.nets: dict = {k: wrap(net()) for k in ('a', 'keys')}", True),
        ("n = {'a': 1, 'b': 2}\nself.nets = {k: wrap(net()) for k, v in n.items()}", False),
        ("n = {**{'a': 1, 'b': 2}}\nself.nets = {k: wrap(net()) for k in n.keys()}", True),
        ("n = {'a': 1, 'b': 2}\nself.nets = {n[k]: wrap(net()) for k in n}", True),
        ("self.boxed(context.wrap_model)", True),
        ("self.nets = list()\nself.nets.extend([wrap(net()), wrap(net())])", True),
        ("self.nets = [net(), net()]\nfor each in self.nets:\n    wrap(each)", True),
        ("self.nets = dict(a=wrap(net()), b=wrap(net()))", True),
        ("self.nets = [self.one(), self.one()]", False),
        ("self.first, self.second = self.one(), wrap(net())", False),
        ("self.first, self.second = self.two()", False),
        ("first = net()\nwrap(first)\nself.first = first\nself.second = wrap(net())", False),
        ("self.first = wrap(net())\nself.second = net()\nwrap(self.second)", False),
        (f"self.nets = torch.nn.ModuleDict({{'a': net(), 'b': net()}})\n{AGAIN}", False),
        (f"self.nets = {{'a': net(), 'b': net()}}\n{AGAIN}", True),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_lightning_sees_every_model(lines, is_shown, tmp_path):
    lines = lines.replace("wrap(", "context.wrap_model(").replace("net()", "torch.nn.Linear(2, 1)")
    source = trial(
        (MODEL, textwrap.indent(f"{lines}\n", " " * 8)),
        ("self.model.parameters()", "[torch.zeros(1)]"),
        ("self.context.get_per_slot_batch_size()", "4"),
        ("\n    def build_training", METHODS),
    )
    made = rewritten(tmp_path, source)
    found: dict = {}
    exec(made, found)
    assert len({*found["Trial"]().parameters()}) == 4
    # A name of its own is only for what no other name shows.
    assert ("self.add_module(" in made) is is_shown
    assert "pass\n" not in made


def test_what_a_function_hands_out_in_a_list_is_marked(tmp_path):
    maker = "def nets(context):\n    return {}\n\n\nclass Trial("
    one = "context.wrap_model(torch.nn.Linear(2, 1))"
    call = (MODEL, "        self.model = nets(context)\n")
    for text, is_marked in ((one, False), (f"{one}, {one}", False), (f"[{one}, {one}]", True)):
        made = rewritten(tmp_path, trial(("class Trial(", maker.format(text)), call))
        assert ("# MIGRATE: Lightning must be given this model" in made) is is_marked


def test_a_dict_that_is_made_beside_others_shows_its_models(tmp_path):
    old = "self.model = context.wrap_model(torch.nn.Linear(2, 1))"
    kept = "self.nets['a'] = context.wrap_model(torch.nn.ReLU())"
    new = f"{old}\n        self.seen, self.nets = [], {{}}\n        {kept}"
    made = rewritten(tmp_path, trial((old, new)))
    assert "self.seen, self.nets = [], torch.nn.ModuleDict()\n" in made

from __future__ import annotations

import pytest

from det_compat.migrate.migration import migrate
from tests.migrate.rewriting import rewritten, trial

MOVED = "self.model = torch.nn.Linear(2, 1).to(device_of_process())"
AVERAGE = """
class Average{bases}:
    def __init__(self, model):
        {init}self.kept = {{n: p.{copy} for n, p in model.named_parameters()}}


class Trial"""


@pytest.mark.parametrize(
    ("line", "is_moved"),
    [
        ("self.size = self.model(torch.zeros(1, 2, device=context.device)).shape", True),
        ("self.kept = [p.detach().clone() for p in self.model.parameters()]", True),
        ("self.names = [n for n, _ in self.model.named_parameters()]", False),
        ("self.old = copy.deepcopy(self.model)", False),
        ("self.two = torch.optim.AdamW(self.model.parameters(), fused=True)", True),
        ("self.two = torch.optim.AdamW(self.model.parameters(), fused=False)", False),
        ("self.n = sum(p.numel() for p in self.model.parameters())", False),
    ],
)
def test_a_model_that_init_computes_with_is_moved_there(line, is_moved, tmp_path):
    optimizer = "        self.opt ="
    made = rewritten(tmp_path, trial((optimizer, f"        {line}\n{optimizer}")))
    assert (MOVED in made) is is_moved
    assert ("def device_of_process():" in made) is is_moved


@pytest.mark.parametrize(
    ("wrapped", "line", "is_moved"),
    [
        ("[context.wrap_model(n) for n in nets]", "[copy.deepcopy(n) for n in nets]", True),
        ("[context.wrap_model(n) for n in nets]", "[AveragedModel(n) for n in self.nets]", True),
        ("{'a': context.wrap_model(nets[0])}", "{'a': copy.deepcopy(self.nets['a'])}", True),
        ("[context.wrap_model(n) for n in nets]", "[n for n in self.nets]", False),
        ("[context.wrap_model(n) for n in nets]", "len([copy.copy(n) for n in sizes])", False),
    ],
)
def test_copies_of_wrapped_models_that_lists_keep_are_where_these_are(
    wrapped, line, is_moved, tmp_path
):
    optimizer = "        self.opt ="
    lines = (
        "        sizes = [1, 2]\n        nets = [torch.nn.Linear(2, size) for size in sizes]\n"
        f"        self.nets = {wrapped}\n        self.old = {line}\n"
    )
    made = rewritten(tmp_path, trial((optimizer, lines + optimizer)))
    assert (".to(device_of_process())" in made) is is_moved


def test_copies_that_a_loop_puts_into_a_list_are_where_the_models_are(tmp_path):
    optimizer = "        self.opt ="
    lines = (
        "        self.nets, self.old = [], []\n        for size in (1, 2):\n"
        "            self.nets.append(context.wrap_model(torch.nn.Linear(2, size)))\n"
        "        for net in self.nets:\n            self.old.append(copy.deepcopy(net).eval())\n"
    )
    made = rewritten(tmp_path, trial((optimizer, lines + optimizer)))
    assert "torch.nn.Linear(2, size).to(device_of_process())" in made


@pytest.mark.parametrize(
    ("bases", "copy", "given", "is_moved"),
    [
        ("", "detach().clone()", "self.model", True),
        ("", "data", "self.model", False),
        ("", "detach().clone()", "self.model.parameters()", True),
        ("(torch.nn.Module)", "detach().clone()", "self.model", False),
    ],
)
@pytest.mark.parametrize("form", ["{}", "{} if context.get_hparam('ema') else None", "[{}]"])
def test_copies_that_an_object_keeps_are_where_the_model_is(
    bases, copy, given, is_moved, form, tmp_path
):
    init = "super().__init__()\n        " if bases else ""
    optimizer = "        self.opt ="
    source = trial(
        (optimizer, f"        self.average = {form.format(f'Average({given})')}\n{optimizer}"),
        ("class Trial", AVERAGE.format(bases=bases, init=init, copy=copy)),
    )
    assert (MOVED in rewritten(tmp_path, source)) is is_moved


@pytest.mark.parametrize(
    ("body", "is_moved"),
    [("self.state = torch.zeros(2, device=self.weight.device)", True), ("self.n = 2", False)],
)
def test_what_a_method_of_a_model_makes_is_where_the_model_is(body, is_moved, tmp_path):
    net = f"class Net(torch.nn.Linear):\n    def reset(self):\n        {body}\n\n\nclass Trial"
    source = trial(
        ("class Trial", net),
        ("torch.nn.Linear(2, 1)", "Net(2, 1)"),
        ("        self.opt =", "        self.clear()\n        self.opt ="),
        (
            "    def train_batch",
            "    def clear(self):\n        self.model.reset()\n\n    def train_batch",
        ),
    )
    made = rewritten(tmp_path, source)
    assert ("self.model = Net(2, 1).to(device_of_process())" in made) is is_moved


PENALTY = """\
class Penalty:
    def __init__(self, model):
        self.model = model{}

    def later(self):
        return torch.ones_like(self.model.weight)

    def __call__(self):
        return self.later()


class Trial"""


@pytest.mark.parametrize(
    ("more", "is_moved"),
    [("", False), ("; self.kept = self.later()", True), ("; self.kept = self()", True)],
)
def test_what_an_object_makes_later_is_where_the_model_is_then(more, is_moved, tmp_path):
    optimizer = "        self.opt ="
    source = trial(
        (optimizer, f"        self.penalty = Penalty(self.model)\n{optimizer}"),
        ("class Trial", PENALTY.format(more)),
    )
    assert (MOVED in rewritten(tmp_path, source)) is is_moved


@pytest.mark.parametrize("is_before", [True, False])
def test_what_a_trial_computes_before_it_wraps_is_where_the_model_was(is_before, tmp_path):
    net, wrap = "net = torch.nn.Linear(2, 1)", "self.model = context.wrap_model(net)"
    lines = [net, "self.n = net(torch.ones(2)).shape", wrap] if is_before else [net, wrap]
    lines += [] if is_before else ["self.n = net(torch.ones(2)).shape"]
    made = "\n        ".join(lines)
    source = trial(("self.model = context.wrap_model(torch.nn.Linear(2, 1))", made))
    assert ("device_of_process" not in rewritten(tmp_path, source)) is is_before


BASE = """\
class Base:
    def __init__(self, device):
        self.device = device
        self.draw = Draw(self.device)

    def place(self):
        return self.device


class Draw:
    def __init__(self, device):
        self.device = device

    def draw(self):
        return self.device
"""


def test_a_device_that_is_handed_on_stays_one(tmp_path):
    """``device`` is a module's own, and cannot be set: a base keeps it under another name."""
    source = trial(
        ("class Trial(PyTorchTrial)", "class Trial(Base, PyTorchTrial)"),
        (
            "        self.context = context\n",
            "        Base.__init__(self, context.device)\n        self.context = context\n",
        ),
        ("import torch\n", "import torch\nfrom base import Base\n"),
    )
    (tmp_path / "base.py").write_text(BASE)
    (tmp_path / "model_def.py").write_text(source)
    files = migrate([str(tmp_path)], "lightning").files
    made = {file.path.name: file.after.decode() for file in files}
    base, start, draw = BASE.partition("class Draw")
    assert made["base.py"] == base.replace("self.device", "self.trial_device") + start + draw
    assert "Base.__init__(self, device_of_process())" in made["model_def.py"]


SHADOW = "{k: v.detach().clone() for k, v in self.model.state_dict().items()}"
RELATED = {
    # A mixin has the method that __init__ calls, another base, or an heir's __init__.
    "mixin": (
        f"class Kept:\n    def keep(self):\n        self.shadow = {SHADOW}\n\n\nclass Trial(Kept, ",
        "        self.keep()\n",
        "",
    ),
    "heir": (
        "class Trial(",
        "",
        "\n\nclass Heir(Trial):\n    def __init__(self, context):\n"
        f"        super().__init__(context)\n        self.shadow = {SHADOW}\n",
    ),
    "heir's method": (
        "class Trial(",
        "        self.keep()\n",
        f"\n\nclass Heir(Trial):\n    def keep(self):\n        self.shadow = {SHADOW}\n",
    ),
    "later": (
        "class Trial(",
        "",
        f"\n\nclass Heir(Trial):\n    def keep(self):\n        self.shadow = {SHADOW}\n",
    ),
}


@pytest.mark.parametrize("where", RELATED)
def test_copies_that_relatives_keep_are_where_the_model_is(where, tmp_path):
    header, line, below = RELATED[where]
    at = "        self.opt ="
    made = rewritten(tmp_path, trial(("class Trial(", header), (at, f"{line}{at}")) + below)
    assert (MOVED in made) is (where != "later")


@pytest.mark.parametrize(
    ("given", "takes", "made", "is_moved"),
    [
        ("self.model", "model", "{k: v.clone() for k, v in model.state_dict().items()}", True),
        ("self", "trial", "copy.deepcopy(trial.model).eval()", True),
        ("copy.deepcopy(self.model)", "model", "model", True),
        ("self.model", "model", "model", False),
        ("self", "trial", "trial", False),
    ],
)
def test_copies_that_callbacks_are_made_with_are_where_the_model_is(
    given, takes, made, is_moved, tmp_path
):
    """Lightning asks for callbacks before it moves anything; their hooks come later."""
    callback = f"""\
class Ema(PyTorchCallback):
    def __init__(self, {takes}):
        self.kept = {made}

    def on_validation_start(self):
        self.saved = {{k: v.clone() for k, v in self.kept.model.state_dict().items()}}


class Trial("""
    build = f"    def build_callbacks(self):\n        return {{'ema': Ema({given})}}\n\n"
    before = "    def build_training_data_loader"
    source = trial(("class Trial(", callback), (before, f"{build}{before}"))
    source = source.replace("PyTorchTrial,", "PyTorchCallback, PyTorchTrial,", 1)
    assert (MOVED in rewritten(tmp_path, source)) is is_moved

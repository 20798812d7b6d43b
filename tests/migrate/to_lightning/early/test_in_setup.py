from __future__ import annotations

import pytest

from tests.migrate.rewriting import method, rewritten, trial

LOADER = "self.loader = torch.utils.data.DataLoader({0}, batch_size={1})"
SIZE = "context.get_per_slot_batch_size()"
DATA = """\
class By:
    def __init__(self, trial):
        self.trial = trial

    def ask(self):
        return self.trial.data

def quiet(*given):
    return [1]

def loaders(size):
    return torch.utils.data.DataLoader([1], size), len([1])

def nets(size):
    return torchvision.models.resnet18(), len([1])

class Data:
    def __init__(self, size):
        self.size = {0}

    def fetch(self):
        self.at = {1}

"""
HELD = f"self.data = Data({SIZE})\nself.data.fetch()"


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        pytest.param(
            f"data = [1]\n{LOADER.format('data', SIZE)}", "batch_size=self.hparams.", id="loader"
        ),
        pytest.param(
            f"size = {SIZE}\n{LOADER.format('[1]', 'size')}", "batch_size=size", id="variable"
        ),
        pytest.param(
            f"self.size = {SIZE}\nself.size += 1\n{LOADER.format('[1]', 'self.size')}",
            "batch_size=self.size",
            id="attribute",
        ),
        pytest.param(
            f"data = make()\nself.data = data\n{LOADER.format('data', SIZE)}",
            "self.data, batch_size=",
            id="what is kept",
        ),
        pytest.param(
            f"{LOADER.format('[1]', SIZE)}\nself.n = len(self.loader)", "len(", id="length"
        ),
        pytest.param(HELD, "self.data.fetch()", id="an object"),
        pytest.param(f"{HELD}\nself.by = By(self)", "", id="the trial is handed on"),
        pytest.param(f"{HELD}\nself.by = By(self.model)", "fetch()", id="another is handed on"),
        pytest.param(f"data = quiet()\n{LOADER.format('data', SIZE)}", "= quiet()", id="function"),
        pytest.param(f"self.quiet = quiet({SIZE})", "", id="what may be a module"),
        pytest.param(
            f"self.loader, self.n = loaders({SIZE})\nself.all = self.n * 2",
            "self.n * 2",
            id="several",
        ),
        pytest.param(f"self.net, self.n = nets({SIZE})", "", id="a module among several"),
        pytest.param(f"{LOADER.format('[1]', SIZE)}\nself.net = net(self.loader)", "", id="asked"),
        pytest.param(f"{LOADER.format('[1]', SIZE)}\nprint(len(self.loader))", "", id="printed"),
        pytest.param(f"self.net = torch.nn.Linear(2, {SIZE})", "", id="a module"),
        pytest.param(f"self.z = torch.rand({SIZE})", "", id="random"),
        pytest.param(f"self.made = unknown({SIZE})", "", id="unknown"),
        pytest.param(
            f"self.d = [1]\n{LOADER.format('self.d', SIZE)}\nself.d = [2]", "", id="set again"
        ),
        pytest.param(f"if context:\n    {LOADER.format('[1]', SIZE)}", "", id="under a condition"),
    ],
)
def test_what_asks_how_many_processes_there_are_is_made_in_setup(lines, after, tmp_path):
    text = lines.replace("\n", f"\n{' ' * 8}")
    data = DATA.format("size", "1")
    made = rewritten(
        tmp_path, trial(("class T", f"{data}\nclass T"), ("lr=0.1))", f"lr=0.1))\n        {text}"))
    )
    assert ("world_size: int" in made) is not bool(after)
    assert after in (method(made, "setup") if after else "")
    assert "MIGRATE" not in made


@pytest.mark.parametrize(
    "drawn",
    [
        ("torch.rand(size)", "1"),
        ("size", "shuffled(1)"),
        ("drawn()", "1"),
        ("nn.Linear(1, 1)", "1"),
    ],
)
def test_an_object_that_may_draw_is_made_where_it_was(drawn, tmp_path):
    data = DATA.format(*drawn) + "\ndef drawn():\n    return torch.randn(1)\n\n"
    text = HELD.replace("\n", f"\n{' ' * 8}")
    made = rewritten(
        tmp_path, trial(("class T", f"{data}\nclass T"), ("lr=0.1))", f"lr=0.1))\n        {text}"))
    )
    assert "world_size: int = 1" in made

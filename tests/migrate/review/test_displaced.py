from __future__ import annotations

import textwrap

import pytest

from tests.migrate.rewriting import rewritten, trial

INIT = "        self.context = context\n"
SAYS = "# MIGRATE: loss is a model of torch's by then, and a LightningModule takes nothing else"
CLASSES = """


class Average:
    def __init__(self, model):
        self.model = model


class Net(torch.nn.Module):
    pass
"""


@pytest.mark.parametrize(
    ("lines", "is_marked"),
    [
        ("self.loss = torch.nn.MSELoss()\nself.loss = lambda a, b: a", True),
        ("self.loss = torch.nn.MSELoss()\nself.loss = torch.nn.functional.mse_loss", True),
        ("self.loss = torch.nn.ParameterList()\nself.loss = [1, 2]", True),
        ("self.loss = torch.nn.MSELoss()\nself.loss = torch.nn.L1Loss()", False),
        ("self.loss = torch.nn.MSELoss().to('cpu')\nself.loss = Average(self.loss)", True),
        ("self.loss = Net()\nself.loss = Average(3)", True),
        ("self.loss = deepcopy(self.model)\nself.loss = Average(self.loss)", True),
        ("self.loss = deepcopy(self.names)\nself.loss = Average(self.loss)", False),
        ("self.loss = torch.nn.MSELoss()\nself.loss = Net()", False),
        ("self.loss = torch.nn.MSELoss()\nself.loss = Elsewhere()", False),
        ("self.loss = torch.nn.MSELoss()\nself.loss = None", False),
        ("self.loss = len\nself.loss = torch.nn.MSELoss()", False),
        ("self.loss = 1\nself.loss = torch.nn.MSELoss()", False),
        ("if a:\n    self.loss = torch.nn.MSELoss()\nelse:\n    self.loss = lambda a: a", False),
        ("if a:\n    self.loss = Net()\nif a:\n    pass\nelse:\n    self.loss = [a]", False),
    ],
)
def test_what_no_module_takes_in_the_place_of_a_model_is_marked(lines, is_marked, tmp_path):
    text = textwrap.indent(f"a = 1\n{lines}\n", " " * 8)
    made = rewritten(tmp_path, trial((INIT, f"{INIT}{text}")) + CLASSES)
    assert (SAYS in made) is is_marked


@pytest.mark.parametrize(("value", "is_marked"), [("focal", True), ("torch.nn.L1Loss()", False)])
def test_an_heir_keeps_a_function_where_its_base_kept_a_model(value, is_marked, tmp_path):
    heir = f"""

def focal(a, b):
    return a


class Heir(Trial):
    def __init__(self, context):
        super().__init__(context)
        self.loss = {value}
"""
    source = trial((INIT, f"{INIT}        self.loss = torch.nn.MSELoss()\n"))
    assert (SAYS in rewritten(tmp_path, f"{source}\n{heir}")) is is_marked


def test_a_mixin_keeps_a_list_where_it_kept_a_model(tmp_path):
    mixin = (
        "class Averaging:\n    def __init__(self, context):\n"
        "        super().__init__(context)\n        self.loss = torch.nn.ParameterList()\n\n"
        "    def begin(self):\n        self.loss = [1]\n\n\n"
    )
    changes = (
        ("class Trial(PyTorchTrial)", f"{mixin}class Trial(Averaging, PyTorchTrial)"),
        (INIT, f"        super().__init__(context)\n{INIT}"),
    )
    assert SAYS in rewritten(tmp_path, trial(*changes))


def test_a_base_keeps_something_else_before_its_heir_keeps_a_model(tmp_path):
    heir = (
        "\n\nclass Heir(Trial):\n    def __init__(self, context):\n"
        "        super().__init__(context)\n        self.loss = torch.nn.L1Loss()\n"
    )
    source = trial((INIT, f"{INIT}        self.loss = [1]\n"))
    assert SAYS not in rewritten(tmp_path, f"{source}{heir}")

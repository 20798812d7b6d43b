from __future__ import annotations

import pytest

from tests.migrate.rewriting import HEADER, rewritten, trial

SAID = "# no submodule: a run that goes on with a checkpoint has none yet to load it into\n"
IMPORTS = "import copy\nfrom torch import nn\nimport torch.nn.functional as F\n"
NET = """

class Head(nn.Module):
    pass


def head(n):
    made = Head(n)
    return made


"""


@pytest.mark.parametrize(
    ("value", "is_late"),
    [
        ("nn.Linear(2, 1).to(batch.device)", True),
        ("torch.nn.CrossEntropyLoss(weight=batch)", True),
        ("nn.CrossEntropyLoss()", False),
        ("copy.deepcopy(self.model)", True),
        ("copy.deepcopy(self.model.net).eval()", True),
        ("copy.deepcopy(self.model.state_dict())", False),
        ("Head(2)", True),
        ("head(2)", True),
        ("self.make()", True),
        ("self.model", True),
        ("batch if self.on else copy.deepcopy(self.model)", True),
        ("F.softmax(batch, 1)", False),
        ("self.model(batch)", False),
    ],
)
def test_a_model_that_is_set_after_init_is_no_submodule(value, is_late, tmp_path):
    step = f"        self.late = {value}\n        loss = self.model(batch).sum()"
    source = trial(
        ("        loss = self.model(batch).sum()", step),
        ('{"error": self.model(batch).sum()}', '{"error": self.late.sum()}'),
        (
            "    def evaluate_batch",
            "    def make(self):\n        return nn.Linear(2, 1)\n\n    def evaluate_batch",
        ),
        header=HEADER + IMPORTS + NET,
    )
    made = rewritten(tmp_path, source)
    assert (f'        {SAID}        object.__setattr__(self, "late", {value})\n' in made) is is_late
    assert (f"        self.late = {value}\n" in made) is not is_late
    assert "MIGRATE" not in made
    assert rewritten(tmp_path, made) == made


@pytest.mark.parametrize(
    ("first", "is_late"),
    [
        ("self.ema = None", True),
        ("self.ema: nn.Module = nn.Linear(2, 1)", False),
        ("self.reset()", False),
    ],
)
def test_a_submodule_that_is_there_from_the_start_stays_one(first, is_late, tmp_path):
    source = trial(
        ("self.context = context\n", f"self.context = context\n        {first}\n"),
        (
            "        loss = self.model(batch).sum()",
            "        if self.ema is None: self.ema = copy.deepcopy(self.model)\n"
            "        loss = self.model(batch).sum()",
        ),
        (
            "    def evaluate_batch",
            "    def reset(self):\n        self.ema = nn.Linear(2, 1)\n\n    def evaluate_batch",
        ),
        header=HEADER + IMPORTS,
    )
    made = rewritten(tmp_path, source)
    assert ('object.__setattr__(self, "ema", copy.deepcopy(self.model))' in made) is is_late


@pytest.mark.parametrize(
    "lines",
    [
        ["self.late = self.context.wrap_model(nn.Linear(2, 1))"],
        ["self.late = nn.Linear(2, 1)", "self.late = self.context.wrap_model(self.late)"],
        ["net = self.context.wrap_model(nn.Linear(2, 1))", "self.late = net"],
        ["rates = self.make()", "rates.load_state_dict(self.saved)", "self.late = rates"],
    ],
)
def test_what_a_trial_wraps_after_init_is_a_submodule(lines, tmp_path):
    """Determined's checkpoints had it."""
    begin = "    def build_training_data_loader(self):\n"
    text = "".join(f"        {line}\n" for line in lines)
    made = rewritten(tmp_path, trial((begin, begin + text), header=HEADER + IMPORTS))
    assert "__setattr__" not in made and "self.late = " in made


CALLBACK = """

class Probe(PyTorchCallback):
    def __init__(self, owner: "Trial", net):
        self.owner = owner
        self.net = net

    def on_validation_start(self):
        head = nn.Linear(2, 1)
        train(head.parameters())
        self.owner.head = self.last = head
        self.net.head = head
        self.head = head


def probe(trial):
    trial.head = copy.deepcopy(trial.model)
    trial.model = copy.deepcopy(trial.model)
"""


def test_a_model_that_other_code_sets_on_a_trial_is_no_submodule(tmp_path):
    header = HEADER.replace("import DataLoader", "import PyTorchCallback, DataLoader") + IMPORTS
    made = rewritten(tmp_path, trial(header=header) + CALLBACK)
    assert f"        {SAID}        self.last = head\n" in made
    assert '        object.__setattr__(self.owner, "head", self.last)\n' in made
    assert "        self.net.head = head\n        self.head = head\n" in made
    assert f'    {SAID}    object.__setattr__(trial, "head", copy.deepcopy(trial.model))\n' in made
    assert "    trial.model = copy.deepcopy(trial.model)\n" in made


BUILT = """\
    def pair(self):
        net = nn.Linear(2, 1)
        return net, torch.optim.SGD(net.parameters(), lr=0.1)

    def evaluate_batch"""


@pytest.mark.parametrize(
    ("line", "lines"),
    [
        (
            "self.late, self.other = self.pair()",
            ["late, self.other = self.pair()", 'object.__setattr__(self, "late", late)'],
        ),
        (
            "made = self.late, *self.rest = copy.deepcopy(self.model), batch",
            [
                "made = late, *self.rest = copy.deepcopy(self.model), batch",
                'object.__setattr__(self, "late", late)',
            ],
        ),
        (
            "net, opt = self.pair()\n        self.late = net",
            ["net, opt = self.pair()", 'object.__setattr__(self, "late", net)'],
        ),
        (
            "self.late, self.two = (nn.Linear(2, 1) for _ in range(2))",
            [
                "late, two = (nn.Linear(2, 1) for _ in range(2))",
                'object.__setattr__(self, "late", late)',
                'object.__setattr__(self, "two", two)',
            ],
        ),
        ("self.late = self.pair()[0]", ['object.__setattr__(self, "late", self.pair()[0])']),
        ("self.late = self.pair()[1]", ["self.late = self.pair()[1]"]),
        ("self.late, self.other = self.other, 1", ["self.late, self.other = self.other, 1"]),
        (
            "self.late = (net := nn.Linear(2, 1))",
            ['object.__setattr__(self, "late", (net := nn.Linear(2, 1)))'],
        ),
        ('setattr(self, "late", head(2))', ['object.__setattr__(self, "late", head(2))']),
        ("setattr(self, batch.name, head(2))", ["object.__setattr__(self, batch.name, head(2))"]),
        ('setattr(self, "model", head(2))', ['setattr(self, "model", head(2))']),
        ('setattr(batch, "late", head(2))', ['setattr(batch, "late", head(2))']),
    ],
)
def test_late_models_among_other_things_or_by_name(line, lines, tmp_path):
    step = "        loss = self.model(batch).sum()"
    source = trial(
        (step, f"        {line}\n{step}"),
        ("    def evaluate_batch", BUILT),
        header=HEADER + IMPORTS + NET,
    )
    made = rewritten(tmp_path, source)
    text = "".join(f"        {each}\n" for each in lines)
    assert text in made.replace(f"        {SAID}", "")
    assert (SAID in made) is (lines != [line])
    assert "MIGRATE" not in made

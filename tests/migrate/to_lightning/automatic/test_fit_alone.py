"""LR schedulers that validations step, which Determined only had in training."""

from __future__ import annotations

import textwrap

import pytest

from tests.migrate.rewriting import HEADER, TRIAL, method, rewritten, trial
from tests.migrate.to_lightning.automatic.validating import FIT, ONE, WHOLE, rate_after

MADE = "torch.optim.lr_scheduler.ReduceLROnPlateau(self.opt, patience=0)"
WRAP = "context.wrap_lr_scheduler(self.plateau, LRScheduler.StepMode.MANUAL_STEP)"
KEPT = f"lr=0.1))\n        self.plateau = {MADE}\n        {WRAP}\n"
ROWS = ("DataLoader([], batch", "DataLoader(list(torch.ones(8, 2)), batch")
CALLBACK = """\
from determined.pytorch import PyTorchCallback


class Following(PyTorchCallback):
    def __init__(self, followed, metric):
        self.followed, self.metric = followed, metric

    def on_validation_end(self, metrics):
        {0}


"""


def following(line: str) -> str:
    """A trial whose callback has its scheduler."""
    building = (
        "    def build_callbacks(self):\n"
        '        return {"f": Following(self.plateau, "error")}\n\n'
        "    def evaluate_batch"
    )
    evaluation = ('{"error": self.model(batch).sum()}', '{"error": batch.sum() * 0 + 1}')
    header = HEADER + CALLBACK.format(line)
    return trial(
        ("lr=0.1))\n", KEPT), ("    def evaluate_batch", building), evaluation, header=header
    )


def whole(lines: str, *more: tuple[str, str]) -> str:
    """A trial whose validation of a whole data set has these lines."""
    text = WHOLE.format(textwrap.indent(lines, " " * 8))
    return trial((ONE, text), *(more or [("lr=0.1))\n", KEPT)]))


def late() -> str:
    """A trial of 0.12, whose scheduler is there from ``configure_optimizers`` on."""
    made = TRIAL.split("        self.model =")[0]
    rest = TRIAL[TRIAL.index("    def build_training_data_loader") :]
    makers = f"""\
        self.plateau = None

    def build_model(self):
        return torch.nn.Linear(2, 1)

    def optimizer(self, model):
        return torch.optim.SGD(model.parameters(), lr=0.1)

    def create_lr_scheduler(self, optimizer):
        self.plateau = {MADE.replace("self.opt", "optimizer")}
        return LRScheduler(self.plateau, step_mode=LRScheduler.StepMode.MANUAL_STEP)

"""
    start, _, end = rest.partition("    def train_batch")
    training = """\
    def train_batch(self, batch, model, epoch_idx, batch_idx):
        return {"loss": model(batch).sum()}

    def evaluate_full_dataset(self, data_loader, model):
        error = sum(float(model(batch).sum() * 0 + 1) for batch in data_loader)
        self.plateau.step(error)
        return {"error": error}
"""
    assert end
    return HEADER + made + makers + start + training


@pytest.mark.parametrize(
    "source",
    [
        pytest.param(whole("self.plateau.step(error)"), id="a trial"),
        pytest.param(late(), id="a scheduler that is made late"),
        pytest.param(following("self.followed.step(metrics[self.metric])"), id="a callback"),
    ],
)
def test_a_validation_alone_leaves_the_learning_rate_which_fit_changes(tmp_path, source):
    made = rewritten(tmp_path, source.replace(*ROWS))
    assert "MIGRATE" not in made
    # The second validation of two is no better than the first one.
    assert rate_after(made) == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("lines", "after"),
    [
        (
            "# the last one\nself.plateau.step(error)",
            f"# the last one\n{FIT}    self.plateau.step(error)\n",
        ),
        (
            "self.plateau.step(error)\nself.plateau.step(error + 1)",
            f"{FIT}    self.plateau.step(error)\n    self.plateau.step(error + 1)\n",
        ),
        (
            "if error > 1 or error < 0:\n    self.plateau.step(error)",
            'if (error > 1 or error < 0) and self.trainer.state.fn == "fit":\n'
            "    self.plateau.step(error)\n",
        ),
        (
            "if error > 1:\n    print(error)\nelse:\n    self.plateau.step(error)",
            f"if error > 1:\n    print(error)\nel{FIT}    self.plateau.step(error)\n",
        ),
        (
            "if error > 1: self.plateau.step(error); print(error)",
            f"if error > 1:\n    {FIT}        self.plateau.step(error)\n    print(error)\n",
        ),
        (
            "for each in (self.plateau,):\n    each.step(error)",
            f"{FIT}    for each in (self.plateau,):\n        each.step(error)\n",
        ),
        ("one = self.plateau\none.step(error)", f"one = self.plateau\n{FIT}    one.step(error)\n"),
    ],
)
def test_a_step_is_under_a_condition(tmp_path, lines, after):
    made = rewritten(tmp_path, whole(lines))
    assert textwrap.indent(after, "    ") in method(made, "validation_step")
    assert "MIGRATE" not in made


@pytest.mark.parametrize(
    "maker",
    ["Noam(self.opt)", "torch.optim.lr_scheduler.StepLR(self.opt, 1)", "get_warm_schedule(self)"],
)
def test_a_scheduler_that_is_not_wrapped_in_a_helper(tmp_path, maker):
    more = """\

    def after(me, error):
        me.warm.step()
"""
    source = whole("self.after(error)", ("lr=0.1))\n", f"lr=0.1))\n        self.warm = {maker}\n"))
    noam = "\n\nclass Noam(torch.optim.lr_scheduler._LRScheduler):\n    pass\n"
    made = rewritten(tmp_path, source + more + noam)
    step = 'if me.trainer.state.fn == "fit":\n        me.warm.step()'
    assert method(made, "after").endswith(step)
    assert "MIGRATE" not in made


def test_a_base_validates_and_its_heir_steps(tmp_path):
    base = whole("self.after(error)") + "\n    def after(self, error):\n        pass\n"
    heir = "\n\nclass Heir(Trial):\n    def after(self, error):\n        self.plateau.step(error)\n"
    made = rewritten(tmp_path, base + heir)
    assert f"        {FIT}            self.plateau.step(error)\n" in made


def test_training_steps_without_a_condition(tmp_path):
    step = (
        "(self.opt)\n        return",
        "(self.opt)\n        self.plateau.step(1)\n        return",
    )
    made = rewritten(tmp_path, trial(("lr=0.1))\n", KEPT), step))
    assert "self.plateau.step(1)" in made and "state.fn" not in made


SAID = "# MIGRATE: Trainer.validate steps an LR scheduler here, too, which only fit should; see "


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("seen = self.plateau.step(error)", id="its result is used"),
        pytest.param("advance(self.plateau, error)", id="a function of the project"),
    ],
)
def test_a_step_that_cannot_wait_is_marked(tmp_path, line):
    function = "\n\ndef advance(plateau, error):\n    print(error)\n    plateau.step(error)\n"
    made = rewritten(tmp_path, whole(line) + function)
    assert SAID in made and line in made


def test_a_method_of_a_callback_that_knows_no_trainer_is_marked(tmp_path):
    more = (
        "\n\n    def advance(self, value):\n        print(value)\n        self.followed.step(value)"
    )
    made = rewritten(tmp_path, following(f"self.advance(metrics['error']){more}"))
    assert f"    {SAID}" in made
    assert "        self.followed.step(value)\n" in made


NOISE = """

class NoiseScheduler:
    def step(self, noise, t, sample):
        return sample - noise * t


def drawn(scheduler, batch):
    return scheduler.step(batch, 1, batch)
"""


@pytest.mark.parametrize(
    "drawing", ["self.noise_scheduler.step(batch, 1, batch)", "drawn(self.noise_scheduler, batch)"]
)
def test_a_scheduler_of_noise_is_none_of_the_learning_rate(tmp_path, drawing):
    made = "lr=0.1))\n        self.noise_scheduler = NoiseScheduler()\n"
    source = trial(("lr=0.1))\n", made), ("self.model(batch).sum()}", f"{drawing}.sum()}}"))
    result = rewritten(tmp_path, source + NOISE)
    assert "MIGRATE" not in result
    assert FIT not in result

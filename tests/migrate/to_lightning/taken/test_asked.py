"""Contexts that are asked for by their name."""

from pathlib import Path

import pytest

from tests.migrate.rewriting import rewritten, trial


def test_a_context_that_is_asked_for_by_name_is_the_trial(tmp_path: Path) -> None:
    before = """\
def penalty(trial):
    context = getattr(trial, "context")
    return context.get_hparams().get("penalty", 0.0) * getattr(trial, "scale")


class Trial"""
    call = ("loss = self.model(batch).sum()", "loss = self.model(batch).sum() + penalty(self)")
    made = rewritten(tmp_path, trial(("class Trial", before), call))
    assert "MIGRATE" not in made
    after = """\
    context = trial
    return context.hparams.get("penalty", 0.0) * getattr(trial, "scale")
"""
    assert after in made


@pytest.mark.parametrize(
    ("helper", "asks", "is_marked"),
    [
        ("return getattr(trial, 'context', None) is None", "penalty(self)", True),
        ("return getattr(trial, 'context', 1).get_hparam('a')", "penalty(self)", True),
        ("return getattr(trial, 'context', None).get_hparam('a')", "penalty(self)", False),
        (
            "c = getattr(trial, 'context', None)\n    return c.get_hparam('a')",
            "penalty(self)",
            False,
        ),
        ("c = getattr(trial, 'context', None)\n    return c and c.device", "penalty(self)", True),
        ("return getattr(trial, 'context', None)", "penalty(self).get_hparam('a')", False),
        ("return getattr(trial, 'context', None)", "penalty(self) or 1", True),
        ("return getattr(trial, 'context', None)", "[*map(penalty, [self])]", True),
    ],
)
def test_one_that_may_be_missing_is_marked(
    helper: str, asks: str, is_marked: bool, tmp_path: Path
) -> None:
    before = f"def penalty(trial):\n    {helper}\n\n\nclass Trial"
    call = ("loss = self.model(batch).sum()", f"loss = self.model(batch).sum() + {asks}")
    made = rewritten(tmp_path, trial(("class Trial", before), call))
    assert ("# MIGRATE: a trial has no context any more" in made) is is_marked
    assert ("getattr(trial" in made) is is_marked


def test_what_is_annotated_as_a_trial_is_one(tmp_path: Path) -> None:
    before = """\
from typing import cast

from determined.pytorch import PyTorchCallback


class Told(PyTorchCallback):
    def __init__(self, trial: PyTorchTrial) -> None:
        self.trial = trial
        self.kept = cast(PyTorchTrialContext, getattr(trial, "context"))

    def on_validation_end(self, metrics):
        print(self.kept.current_train_epoch(), self.trial.hparams["size"])


class Trial"""
    own = ("self.opt =", "self.hparams = {'size': 2}\n        self.opt =")
    made = rewritten(tmp_path, trial(("class Trial", before), own))
    assert "MIGRATE" not in made
    assert "self.kept = cast(pl.LightningModule, trial)\n" in made
    # What the trial sets under a name of modules has another name here, too.
    assert "self.trial_hparams = {'size': 2}\n" in made
    assert "print(self.kept.current_epoch, self.trial.trial_hparams" in made

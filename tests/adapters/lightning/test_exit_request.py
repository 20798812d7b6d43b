"""ShouldExit, raised by user code; the expected hooks are those of Determined 0.38.1."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import det_compat
from det_compat import pytorch
from det_compat.pytorch import Batch
from det_compat.pytorch.private.boundaries import ShouldExit
from tests.adapters.trials import Linear, Recorder, built, trainer

WRITES = ["on_checkpoint_save_start", "on_checkpoint_write_end", "on_checkpoint_upload_end"]


class Leaves(Linear):
    """Raises in its third batch, or in a hook, or in a validation."""

    error: ShouldExit
    where = "train_batch"

    def finish(self) -> None:
        self.recorder = Recorder(fails_in=self.where, error=self.error)

    def train_batch(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        metrics = super().train_batch(*args, **kwargs)
        if self.where == "train_batch" and len(self.trained) == 3:
            raise self.error
        return metrics

    def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        if self.where == "evaluate_batch":
            raise self.error
        return super().evaluate_batch(batch, batch_idx)


def leaving(where: str, *, skips: bool) -> type[Leaves]:
    members = {"error": ShouldExit(skip_exit_checkpoint=skips), "where": where}
    return type("Leaving", (Leaves,), members)


@pytest.mark.parametrize("skips", [False, True])
@pytest.mark.parametrize(
    ("where", "trained"),
    [
        ("train_batch", 3),
        ("evaluate_batch", 4),
        ("on_validation_end", 4),
        ("on_training_workload_end", 4),
        ("on_training_epoch_end", 4),
    ],
)
def test_it_ends_training_with_or_without_a_checkpoint(
    where: str, trained: int, skips: bool
) -> None:
    trial = built(leaving(where, skips=skips))
    pytorch.Trainer(trial, trial.context).fit(
        max_length=Batch(8), validation_period=Batch(4), checkpoint_policy="none"
    )
    hooks = trial.recorder.hooks()
    assert len(trial.trained) == trained
    expected = [] if skips else WRITES
    assert hooks[-len(expected) - 1 :] == [*expected, "on_trial_shutdown"]
    assert hooks.count("on_checkpoint_write_end") == len(expected[:1])


def test_the_checkpoint_does_not_count_the_batch_that_raised() -> None:
    trial = built(leaving("train_batch", skips=False))
    pytorch.Trainer(trial, trial.context).fit(max_length=Batch(8), checkpoint_policy="none")
    [directory] = [call[1] for call in trial.recorder.calls if call[0] == WRITES[1]]
    again = built(Linear)
    pytorch.Trainer(again, again.context).fit(max_length=Batch(4), latest_checkpoint=directory)
    assert again.trained == [2, 3]


@pytest.mark.parametrize("skips", [False, True])
def test_a_lightning_fit_returns(skips: bool, tmp_path: Path) -> None:
    module = det_compat.to_lightning(leaving("train_batch", skips=skips))()
    lightning = trainer(default_root_dir=tmp_path, max_epochs=3)
    lightning.fit(module)
    assert lightning.state.finished and len(module.trial.trained) == 3
    assert len(list(tmp_path.rglob("*.ckpt"))) == (0 if skips else 1)
    assert module.trial.recorder.hooks()[-1] == "on_trial_shutdown"


def test_outside_of_training_it_is_an_error() -> None:
    module = det_compat.to_lightning(leaving("evaluate_batch", skips=True))()
    with pytest.raises(ShouldExit):
        trainer().validate(module)

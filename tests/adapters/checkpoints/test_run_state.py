from __future__ import annotations

import io
import logging
import random
from typing import Any

import numpy as np
import pytest
import torch

from det_compat.adapters.checkpoints.run_state import plain_state, restore_run, state_of
from det_compat.adapters.run.callbacks import TrialCallbacks
from det_compat.adapters.run.trial_run import TrialRun
from det_compat.pytorch import LRScheduler, PyTorchCallback
from tests.adapters.trials import Gan, Linear, Normed, built, same, weights


class Scheduled(Normed):
    """With a scheduler and a scaler."""

    def prepare(self) -> None:
        if self.hparam("scaler", True):
            self.scaler = self.context.wrap_scaler(torch.amp.GradScaler("cpu", init_scale=8.0))

    def finish(self) -> None:
        scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 1, 0.5)
        self.scheduler = self.context.wrap_lr_scheduler(scheduler, LRScheduler.StepMode.MANUAL_STEP)


def run_of(trial_cls: type, **hparams: Any) -> TrialRun:
    trial = built(trial_cls, hparams)
    return TrialRun(trial, trial.context)


def trained(run: TrialRun) -> TrialRun:
    """``run`` after a step of everything that has a state."""
    trial = run.trial
    trial.loss((torch.randn(4, 3), torch.randn(4, 1))).backward()
    trial.optimizer.step()
    trial.scheduler.step()
    return run


def draws() -> list[float]:
    return [torch.rand(()).item(), np.random.rand(), random.random()]


def test_the_keys_are_determineds() -> None:
    assert list(state_of(run_of(Scheduled))) == [
        "models_state_dict",
        "optimizers_state_dict",
        "lr_schedulers_state_dict",
        "callbacks",
        "rng_state",
        "scaler_state_dict",
    ]
    assert "scaler_state_dict" not in state_of(run_of(Linear))


def test_everything_comes_back() -> None:
    first = trained(run_of(Scheduled))
    file = io.BytesIO()
    torch.save(plain_state(state_of(first)), file)
    expected = draws()
    file.seek(0)
    state = torch.load(file, weights_only=True)
    second = run_of(Scheduled)
    second.trial.scaler.load_state_dict({**second.trial.scaler.state_dict(), "scale": 2.0})
    restore_run(second, state)
    assert same(weights(first.trial.model), weights(second.trial.model))
    ours, theirs = (run.trial.optimizer.state_dict() for run in (first, second))
    assert str(ours) == str(theirs)
    assert second.trial.scheduler.get_last_lr() == [0.005]
    assert second.trial.scaler.state_dict()["scale"] == 8.0
    assert draws() == expected


def test_the_random_state_with_numpy_arrays_as_determined_has_it() -> None:
    run = run_of(Linear)
    state = state_of(run)
    expected = draws()
    restore_run(run, state)
    assert draws() == expected


def test_callbacks_see_the_state_before_it_is_loaded_and_may_change_it() -> None:
    class Edits(Linear):
        def finish(self) -> None:
            self.recorder.note = self.note

        def note(self, hook: str, checkpoint: Any) -> None:
            self.seen = list(checkpoint)

    run = run_of(Edits)
    state = state_of(run)
    kept = {k: v for k, v in state.items() if k not in ("models_state_dict", "rng_state")}
    restore_run(run, kept)
    assert set(run.trial.seen) >= {"models_state_dict", "optimizers_state_dict", "callbacks"}


@pytest.mark.parametrize(("key", "what"), [("models", "models"), ("optimizers", "optimizers")])
def test_a_state_of_another_trial(key: str, what: str) -> None:
    state = state_of(run_of(Gan))
    only = {f"{key}_state_dict": state[f"{key}_state_dict"]}
    message = f"the checkpoint has 2 {what}, the trial has 1"
    with pytest.raises(ValueError, match=message):
        restore_run(run_of(Linear), only)


@pytest.mark.parametrize(("saved", "loaded"), [(True, False), (False, True)])
def test_a_scaler_on_one_side_only(
    saved: bool, loaded: bool, caplog: pytest.LogCaptureFixture
) -> None:
    state = state_of(run_of(Scheduled, scaler=saved))
    with caplog.at_level(logging.WARNING):
        restore_run(run_of(Scheduled, scaler=loaded), state)
    assert any("gradient scaler" in record.getMessage() for record in caplog.records)


def test_callbacks_change_what_is_restored() -> None:
    saved = state_of(trained(run_of(Scheduled)))
    run = run_of(Scheduled)

    class Replaces(PyTorchCallback):
        def on_checkpoint_load_start(self, checkpoint: dict[str, Any]) -> None:
            checkpoint["models_state_dict"] = [
                {name: torch.ones_like(value) for name, value in state.items()}
                for state in checkpoint["models_state_dict"]
            ]
            del checkpoint["rng_state"]

    run.callbacks = TrialCallbacks({"replaces": Replaces()})
    torch.manual_seed(5)
    expected = torch.get_rng_state()
    restore_run(run, saved)
    assert all((value == 1).all() for value in run.trial.model.state_dict().values())
    assert torch.equal(torch.get_rng_state(), expected)

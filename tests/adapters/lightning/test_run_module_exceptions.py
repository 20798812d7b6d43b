"""Exceptions surface as themselves, and the callbacks of the trial are shut down."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
from pytorch_lightning.callbacks import ModelCheckpoint, OnExceptionCheckpoint

from det_compat import to_lightning
from det_compat.pytorch import PyTorchCallback
from tests.adapters.trials import Linear, Recorder, trainer


def fitted(trial_cls: type, **flags: Any) -> Any:
    module = to_lightning(trial_cls)(hparams={})
    trainer(**flags).fit(module)
    return module


REACHED = [
    "on_trial_startup",
    "on_training_start",
    "on_training_epoch_start",
    "on_training_epoch_end",
    "on_training_workload_end",
    "on_validation_start",
    "on_validation_epoch_start",
    "on_validation_epoch_end",
    "on_validation_end",
    "on_checkpoint_save_start",
]


class Oops(Exception):
    """An exception of the user's own."""


def failing(hook: str, error: BaseException) -> tuple[type, list[Any]]:
    calls: list[Any] = []

    class Fails(Linear):
        def build_callbacks(self) -> dict[str, PyTorchCallback]:
            return {
                "a": Recorder(calls, "a."),
                "b": Recorder(calls, "b.", hook, error),
                "c": Recorder(calls, "c."),
            }

    return Fails, calls


def shutdowns(calls: list[Any]) -> list[str]:
    return [call[0][0] for call in calls if call[0].endswith("on_trial_shutdown")]


@pytest.mark.parametrize("hook", REACHED)
def test_an_exception_in_a_callback_surfaces_as_itself(hook: str, tmp_path: Path) -> None:
    error = Oops("from the callback", 7)
    fails, calls = failing(hook, error)
    with pytest.raises(Oops) as raised:
        fitted(fails, callbacks=[ModelCheckpoint(tmp_path)], enable_checkpointing=True)
    assert raised.value is error
    assert shutdowns(calls) == (["a"] if hook == "on_trial_startup" else ["c", "b", "a"])


LOADERS = ["build_training_data_loader", "build_validation_data_loader"]
METHODS = ["__init__", *LOADERS, "train_batch", "evaluate_batch", "evaluation_reducer"]


@pytest.mark.filterwarnings("ignore:.*ckpt_path:UserWarning")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("saves", [False, True])
def test_an_exception_in_the_trial_surfaces_as_itself(
    method: str, saves: bool, tmp_path: Path
) -> None:
    error = Oops(f"from {method}")
    fails, calls = failing("", error)

    def fail(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise error

    setattr(fails, method, fail)
    saving = [OnExceptionCheckpoint(tmp_path)] if saves else []
    with pytest.raises(Oops) as raised:
        fitted(fails, callbacks=saving, enable_checkpointing=saves)
    assert raised.value is error
    assert shutdowns(calls) == ([] if method == "__init__" else ["c", "b", "a"])


@pytest.mark.parametrize("hook", ["on_validation_start", "on_validation_end"])
def test_an_exception_in_validate_shuts_the_callbacks_down(hook: str) -> None:
    fails, calls = failing(hook, Oops("in validate"))
    with pytest.raises(Oops, match="in validate"):
        trainer().validate(to_lightning(fails)(hparams={}), verbose=False)
    assert shutdowns(calls) == ["c", "b", "a"]


def test_an_exception_in_shutdown_lets_the_others_shut_down() -> None:
    fails, calls = failing("on_trial_shutdown", Oops("in shutdown"))
    with pytest.raises(Oops, match="in shutdown"):
        fitted(fails)
    assert shutdowns(calls) == ["c", "b", "a"]


def test_keyboard_interrupt_shuts_the_callbacks_down() -> None:
    fails, calls = failing("on_training_epoch_end", KeyboardInterrupt())
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        fitted(fails)
    assert shutdowns(calls) == ["c", "b", "a"]


def test_a_module_can_be_fitted_after_an_exception() -> None:
    class FailsOnce(Linear):
        failed = False

        def train_batch(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
            metrics = super().train_batch(*args, **kwargs)
            if not self.failed and len(self.trained) == 2:
                self.failed = True
                raise Oops("once")
            return metrics

    module = to_lightning(FailsOnce)(hparams={})
    with pytest.raises(Oops):
        trainer().fit(module)
    used = trainer()
    used.fit(module)
    assert module.trial.trained == [0, 1, 0, 1, 2, 3]
    assert float(used.callback_metrics["index"]) == 1.5


def test_an_exception_of_lightnings_callback_shuts_the_trial_down() -> None:
    class Breaks(pl.Callback):
        def on_train_batch_end(self, *args: Any) -> None:
            raise Oops("in Lightning's callback")

    fails, calls = failing("", Oops())
    with pytest.raises(Oops, match="in Lightning's callback"):
        fitted(fails, callbacks=[Breaks()])
    assert shutdowns(calls) == ["c", "b", "a"]

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import det_compat
from det_compat import pytorch
from det_compat.pytorch import Batch, Epoch
from tests.adapters.trials import Linear, Normed, built, same, weights


class Notes(Linear):
    """Keeps what happened after which batch."""

    def finish(self) -> None:
        self.log: list[tuple[str, int]] = []
        self.recorder.note = self.note

    def note(self, hook: str, *args: Any) -> None:
        self.recorder.calls.append((hook, *args))
        self.log.append((hook, len(self.trained)))

    def at(self, hook: str) -> list[int]:
        """After how many batches a hook was called."""
        return [batches for name, batches in self.log if name == hook]


def fitted(trial_cls: type = Notes, **periods: Any) -> Any:
    trial = built(trial_cls)
    options = {"max_length": Epoch(2), "checkpoint_policy": "none", **periods}
    pytorch.Trainer(trial, trial.context).fit(**options)
    return trial


VALIDATED, WRITTEN, REPORTED = (
    "on_validation_end",
    "on_checkpoint_write_end",
    "on_training_workload_end",
)


@pytest.mark.parametrize(
    ("periods", "trained", "validated", "written"),
    [
        ({"max_length": Batch(6)}, 6, [6], [6]),
        ({"max_length": Epoch(2)}, 8, [8], [8]),
        ({"validation_period": Batch(3)}, 8, [3, 6, 8], [8]),
        ({"validation_period": Epoch(1)}, 8, [4, 8], [8]),
        ({"validation_period": Batch([1, 5])}, 8, [1, 5, 8], [8]),
        ({"checkpoint_period": Batch(3)}, 8, [8], [3, 6, 8]),
        ({"validation_period": Epoch(1), "checkpoint_policy": "all"}, 8, [4, 8], [4, 8]),
        ({"step_zero_validation": True}, 8, [0, 8], [8]),
        ({"test_mode": True}, 1, [1], [1]),
    ],
)
def test_what_happens_after_which_batch(
    periods: dict[str, Any], trained: int, validated: list[int], written: list[int]
) -> None:
    trial = fitted(**periods)
    assert trial.trained == list(range(trained))
    assert trial.at(VALIDATED) == validated
    assert trial.at(WRITTEN) == written
    assert trial.at("on_trial_shutdown") == [trained]


def test_reporting_periods() -> None:
    assert fitted(reporting_period=Batch(3)).at(REPORTED) == [3, 6, 8]
    assert fitted(reporting_period=Epoch(1)).at(REPORTED) == [4, 8]


def test_the_stop_that_a_trial_asks_for() -> None:
    class Stops(Notes):
        def train_batch(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
            metrics = super().train_batch(*args, **kwargs)
            if len(self.trained) == 2:
                self.context.set_stop_requested(True)
            return metrics

    trial = fitted(Stops, reporting_period=Batch(3), max_length=Epoch(5))
    assert trial.trained == [0, 1, 2]
    assert trial.at(WRITTEN) == [3]


def test_init_and_trainer_train_as_a_script_does(tmp_path: Path) -> None:
    with pytorch.init(hparams={"lr": 0.05}, exp_conf={"name": "x"}) as context:
        trial = Notes(context)
        before = weights(trial.model)
        pytorch.Trainer(trial, context).fit(max_length=Epoch(1), checkpoint_policy="none")
    assert not same(before, weights(trial.model))
    assert trial.optimizer.param_groups[0]["lr"] == 0.05


def test_the_metrics_are_in_the_runs_tensorboard_directory() -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    with pytorch.init(hparams={}) as context:
        trial = Notes(context)
        pytorch.Trainer(trial, context).fit(max_length=Epoch(1), checkpoint_policy="none")
        events = EventAccumulator(str(context.get_tensorboard_path()))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("index")] == [(4, 1.5)]


def test_training_goes_on_from_a_checkpoint() -> None:
    torch.manual_seed(4)
    whole = fitted(Normed, max_length=Epoch(3), checkpoint_period=Epoch(1))
    torch.manual_seed(4)
    trial = built(Notes)
    pytorch.Trainer(trial, trial.context).fit(max_length=Batch(5), checkpoint_policy="none")
    [(_, directory)] = [c for c in trial.recorder.calls if c[0] == WRITTEN]
    again = built(Notes)
    for latest in (directory, Path(directory).name):
        again = built(Notes)
        pytorch.Trainer(again, again.context).fit(
            max_length=Batch(7), checkpoint_policy="none", latest_checkpoint=latest
        )
        assert again.trained == [5, 6]
        assert again.recorder.calls[0] == ("on_trial_startup", 5, latest)
    assert len(whole.trained) == 12


def test_a_checkpoint_that_is_over_trains_no_more() -> None:
    trial = built(Notes)
    pytorch.Trainer(trial, trial.context).fit(max_length=Batch(5), checkpoint_policy="none")
    [(_, directory)] = [c for c in trial.recorder.calls if c[0] == WRITTEN]
    again = built(Notes)
    pytorch.Trainer(again, again.context).fit(
        max_length=Batch(5), checkpoint_policy="none", latest_checkpoint=directory
    )
    assert again.trained == []
    assert same(weights(again.model), weights(trial.model))


def test_a_checkpoint_that_is_not_there() -> None:
    with pytest.raises(FileNotFoundError, match="found no checkpoint 'nowhere'"):
        fitted(latest_checkpoint="nowhere")


# Determined leaves the models in eval mode as well.
@pytest.mark.filterwarnings("ignore:Found .* in eval mode at the start of training")
def test_fit_twice_trains_from_the_start_again() -> None:
    trial = built(Notes)
    for _ in range(2):
        pytorch.Trainer(trial, trial.context).fit(max_length=Batch(2), checkpoint_policy="none")
    assert trial.trained == [0, 1, 0, 1]
    assert len(trial.at("on_trial_shutdown")) == 2


def test_invalid_hp_surfaces_after_a_checkpoint() -> None:
    class Invalid(Notes):
        def train_batch(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
            if len(self.trained) == 2:
                raise det_compat.InvalidHP("too large")
            return super().train_batch(*args, **kwargs)

    trial = built(Invalid)
    with pytest.raises(det_compat.InvalidHP, match="too large"):
        pytorch.Trainer(trial, trial.context).fit(max_length=Epoch(1))
    assert trial.at(WRITTEN) == [2]
    assert trial.at("on_trial_shutdown") == [2]


def test_an_exception_surfaces_as_itself() -> None:
    error = LookupError("mine")

    class Breaks(Notes):
        def evaluate_batch(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
            raise error

    trial = built(Breaks)
    with pytest.raises(LookupError) as raised:
        pytorch.Trainer(trial, trial.context).fit(max_length=Epoch(1))
    assert raised.value is error
    assert trial.at("on_trial_shutdown") == [4]


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"max_length": None}, ValueError, "needs max_length"),
        ({"max_length": 5}, TypeError, r"pytorch.Batch\(int\)"),
        ({"max_length": Batch([1, 2])}, TypeError, r"pytorch.Batch\(int\)"),
        ({"checkpoint_policy": "some"}, ValueError, "best, all, none, got 'some'"),
    ],
)
def test_bad_arguments(options: dict[str, Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        fitted(**options)


class SeesGradMode(Notes):
    def finish(self) -> None:
        super().finish()
        self.grad_modes: dict[str, bool] = {}

    def note(self, hook: str, *args: Any) -> None:
        super().note(hook, *args)
        self.grad_modes[hook] = torch.is_grad_enabled()


def test_checkpoint_callbacks_after_a_validation_may_train() -> None:
    trial = fitted(SeesGradMode, validation_period=Epoch(1), checkpoint_period=Epoch(1))
    assert not trial.grad_modes["on_validation_end"]
    assert trial.grad_modes["on_checkpoint_save_start"]
    assert trial.grad_modes["on_checkpoint_upload_end"]


def test_progress_is_reported_once_after_a_batch(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level("INFO", "determined.core"):
        fitted(max_length=Batch(8), reporting_period=Batch(4))
    progress = [line for line in caplog.messages if line.startswith("report_progress")]
    assert progress == ["report_progress with progress=0.5", "report_progress with progress=1.0"]


class Refuses(Notes):
    """InvalidHP, raised where the last checkpoint is written."""

    def note(self, hook: str, *args: Any) -> None:
        super().note(hook, *args)
        if hook == "on_checkpoint_write_end":
            raise det_compat.InvalidHP("too large")


def test_invalid_hp_at_the_last_checkpoint_ends_only_the_fit() -> None:
    trial = fitted(Refuses)
    assert trial.at("on_trial_shutdown") == [8]


class FailsTwice(Refuses):
    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
        if batch_idx == 3:
            raise det_compat.InvalidHP("first")
        return super().train_batch(batch, epoch_idx, batch_idx)

    def note(self, hook: str, *args: Any) -> None:
        Notes.note(self, hook, *args)
        if hook == "on_checkpoint_write_end":
            raise OSError("no space left")


def test_shutdown_is_called_even_if_the_checkpoint_on_the_way_out_fails() -> None:
    trial = built(FailsTwice)
    with pytest.raises(OSError, match="no space left"):
        pytorch.Trainer(trial, trial.context).fit(max_length=Batch(8))
    assert trial.at("on_trial_shutdown") == [3]


class Writes(Linear):
    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
        self.context.get_tensorboard_writer().add_scalar("own", 1.0, batch_idx)
        return super().train_batch(batch, epoch_idx, batch_idx)


def test_what_the_trial_writes_to_tensorboard_is_in_the_file_in_the_end() -> None:
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    trial = built(Writes)
    pytorch.Trainer(trial, trial.context).fit(max_length=Batch(5), checkpoint_policy="none")
    events = accumulator.EventAccumulator(str(trial.context.get_tensorboard_path())).Reload()
    assert [event.step for event in events.Scalars("own")] == [0, 1, 2, 3, 4]

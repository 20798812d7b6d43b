from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import pytorch_lightning as pl
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.loggers import TensorBoardLogger
from pytorch_lightning.loggers.logger import DummyLogger
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from det_compat import to_lightning
from det_compat.adapters.lightning import publish
from det_compat.adapters.lightning.publish import MetricsPublisher
from tests.adapters.trials import Linear, trainer


class MemoryLogger(DummyLogger):
    def __init__(self) -> None:
        super().__init__()
        self.logged: list[tuple[int, dict[str, float]]] = []

    def log_metrics(self, metrics: dict[str, float], step: int) -> None:
        self.logged.append((step, dict(metrics)))


def attached(logger: MemoryLogger) -> Any:
    """A module that has a Trainer with that logger."""
    module = to_lightning(Linear)(hparams={})
    used = trainer(logger=logger, limit_val_batches=0, max_steps=0)
    used.fit(module)
    used.callback_metrics.clear()
    logger.logged.clear()
    return module


def test_scalars_are_published_under_their_names() -> None:
    logger = MemoryLogger()
    module = attached(logger)
    metrics = {"a": 1, "b": np.float32(2.5), "c": np.array(3.5), "d": True, "batches": 7}
    MetricsPublisher().training(module.trainer, metrics, 7)
    assert logger.logged == [(7, {"a": 1.0, "b": 2.5, "c": 3.5, "d": 1.0})]
    assert {k: float(v) for k, v in module.trainer.callback_metrics.items()} == {
        "a": 1.0,
        "b": 2.5,
        "c": 3.5,
        "d": 1.0,
    }
    assert module.trainer.progress_bar_metrics["b"] == 2.5


@pytest.mark.parametrize("value", [None, "text", [1, 2], {"x": 1}, np.zeros(2), np.array("x")])
def test_what_is_no_scalar_is_left_out(value: Any) -> None:
    logger = MemoryLogger()
    module = attached(logger)
    MetricsPublisher().training(module.trainer, {"odd": value, "loss": 1.0}, 3)
    assert logger.logged == [(3, {"loss": 1.0})]


def test_nothing_is_logged_where_there_is_nothing() -> None:
    logger = MemoryLogger()
    module = attached(logger)
    MetricsPublisher().training(module.trainer, {"odd": "text"}, 3)
    assert logger.logged == []


def test_names_that_training_has_taken() -> None:
    logger = MemoryLogger()
    module = attached(logger)
    publisher = MetricsPublisher()
    publisher.training(module.trainer, {"loss": 1.0, "val_acc": 0.0, "acc": 0.0}, 4)
    publisher.validation(module, {"loss": 2.0, "acc": 0.5, "own": 0.1}, 4)
    assert logger.logged[-1] == (4, {"val_loss": 2.0, "validation_acc": 0.5, "own": 0.1})
    assert float(module.trainer.callback_metrics["loss"]) == 1.0


def test_a_validation_metric_that_has_the_prefix_itself() -> None:
    logger = MemoryLogger()
    module = attached(logger)
    publisher = MetricsPublisher()
    publisher.training(module.trainer, {"loss": 1.0}, 4)
    publisher.validation(module, {"loss": 2.0, "val_loss": 3.0}, 4)
    assert logger.logged[-1] == (4, {"validation_loss": 2.0, "val_loss": 3.0})


def test_a_period_that_is_not_over_is_shown_but_not_logged() -> None:
    logger = MemoryLogger()
    module = attached(logger)
    publisher = MetricsPublisher()
    publisher.training_so_far(module.trainer, {"loss": 1.0})
    assert logger.logged == []
    assert float(module.trainer.callback_metrics["loss"]) == 1.0


# What is held for TensorBoard


class Counted:
    """What a TensorBoardLogger has got, at a time that a test sets."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        self.now = 100.0
        self.steps: list[int] = []
        self.logger = TensorBoardLogger(folder, default_hp_metric=False)
        monkeypatch.setattr(publish, "time", SimpleNamespace(monotonic=lambda: self.now))

        def log_metrics(logger: Any, metrics: dict[str, float], step: int | None) -> None:
            if step is not None:  # The logger notes hyperparameters without one.
                self.steps.append(step)
            write(logger, metrics, step)

        write = TensorBoardLogger.log_metrics
        monkeypatch.setattr(TensorBoardLogger, "log_metrics", log_metrics)

    def written(self) -> dict[str, list[tuple[int, float]]]:
        """Each metric in the file: its steps and values."""
        events = EventAccumulator(str(self.logger.log_dir)).Reload()
        return {
            tag: [(event.step, event.value) for event in events.Scalars(tag)]
            for tag in events.Tags()["scalars"]
        }


class Reports(Linear):
    """``at`` is called in each batch that it trains."""

    at: Callable[[int], None]

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
        type(self).at(batch_idx)
        return super().train_batch(batch, epoch_idx, batch_idx)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Counted:
    return Counted(monkeypatch, tmp_path)


def run_with(counted: Counted, at: Callable[[int], None], **flags: Any) -> Any:
    module = to_lightning(type("Trial", (Reports,), {"at": staticmethod(at)}))(hparams={})
    used = trainer(**{"val_check_interval": 1, "max_epochs": 2, "logger": counted.logger, **flags})
    used.fit(module)
    return used


def test_reports_within_a_second_of_others_are_held_until_it_is_over(counted: Counted) -> None:
    seen = []

    def at(batch_idx: int) -> None:
        seen.append([*counted.steps])
        counted.now += 0.4

    run_with(counted, at)
    # The first report is handed over at once, the next ones by the batch that ends after a second.
    assert seen[:2] == [[], [1]]
    assert seen[3:5] == [[1], [1, 1, 2, 2, 3, 3]]
    assert counted.steps == [step for step in range(1, 9) for _ in range(2)]


def test_reports_a_second_apart_are_not_held(
    counted: Counted, monkeypatch: pytest.MonkeyPatch
) -> None:
    def at(batch_idx: int) -> None:
        assert counted.steps == [step for step in range(1, batch_idx + 1) for _ in range(2)]

    monkeypatch.setattr(publish.time, "monotonic", itertools.count(100).__next__)
    run_with(counted, at)


def test_all_is_in_the_file_as_a_logger_of_another_kind_has_it(counted: Counted) -> None:
    other = MemoryLogger()
    run_with(counted, lambda _: None, logger=[counted.logger, other])
    expected: dict[str, list[tuple[int, float]]] = {}
    for step, metrics in other.logged:
        for name, value in metrics.items():
            expected.setdefault(name, []).append((step, pytest.approx(value)))
    assert counted.written() == expected
    assert len(expected) == 3


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_an_exception_leaves_no_report_behind(counted: Counted, error: type[BaseException]) -> None:
    def at(batch_idx: int) -> None:
        if batch_idx == 5:
            raise error

    with pytest.raises((error, SystemExit)):
        run_with(counted, at)
    assert max(step for step, _ in counted.written()["validation_loss"]) == 5


def test_a_logger_that_fails_at_the_end_does_not_hide_why_it_ended(
    counted: Counted, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def log_metrics(*_: Any, **__: Any) -> None:
        raise OSError("the disk is gone")

    def at(batch_idx: int) -> None:
        if batch_idx == 5:
            monkeypatch.setattr(TensorBoardLogger, "log_metrics", log_metrics)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_with(counted, at)
    assert "did not reach a logger: the disk is gone" in caplog.text


# The weights after the optimizer step are what is wanted.
@pytest.mark.filterwarnings("ignore:Using ModelCheckpoint with manual optimization")
def test_callbacks_at_the_end_and_checkpoints_come_after_all_reports(
    counted: Counted, tmp_path: Path
) -> None:
    def look(self: Any, *args: Any) -> None:
        self.seen.append(max(counted.steps, default=0))

    hooks = {"on_train_batch_start": look, "on_train_end": look, "seen": []}
    looks = type("Looks", (pl.Callback,), hooks)()
    saves = ModelCheckpoint(tmp_path / "saved", every_n_train_steps=3, save_top_k=-1)
    run_with(counted, lambda _: None, callbacks=[looks, saves], enable_checkpointing=True)
    # Each validation comes after the checkpoint that is due at the same batch.
    assert looks.seen == [0, 1, 1, 2, 2, 2, 5, 5, 8]


def test_nothing_is_held_while_a_whole_dataset_is_evaluated(counted: Counted) -> None:
    class Whole(Linear):
        evaluate_batch = None

        def evaluate_full_dataset(self, data_loader: Any) -> dict[str, Any]:
            seen.append(([*counted.steps], [*module.publisher.held]))
            return {"validation_loss": 1.0}

    seen: list[Any] = []
    module = to_lightning(Whole)(hparams={})
    trainer(val_check_interval=1, max_epochs=1, logger=counted.logger).fit(module)
    assert [held for _, held in seen] == [[]] * 4
    assert seen[-1][0] == [1, 1, 2, 2, 3, 3, 4]

"""Lightning's own flags, callbacks and loggers keep their meaning."""

from __future__ import annotations

import csv
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint
from pytorch_lightning.loggers import CSVLogger, TensorBoardLogger
from pytorch_lightning.profilers import SimpleProfiler
from torch import nn

from det_compat import to_lightning
from det_compat.adapters.lightning.unknown.probe import check_defaults
from det_compat.adapters.run.training import Training
from det_compat.pytorch import DataLoader, LRScheduler, PyTorchCallback
from tests.adapters.trials import Gan, Linear, Net, Normed, rows, same, trainer, weights

LinearModule = to_lightning(Linear)


class Watch(pl.Callback):
    """Notes the steps at which Lightning validates, and the metrics that callbacks see there."""

    def __init__(self) -> None:
        self.validations: list[int] = []
        self.seen: list[dict[str, float]] = []
        self.seen_at_epoch_end: list[dict[str, float]] = []

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.validations.append(trainer.global_step)
        self.seen.append({name: float(v) for name, v in trainer.callback_metrics.items()})

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        metrics = trainer.callback_metrics
        self.seen_at_epoch_end.append({name: float(v) for name, v in metrics.items()})


def fitted(trial_cls: type = Linear, exp_conf: Any = None, **flags: Any) -> Any:
    module = to_lightning(trial_cls)(hparams={}, exp_conf=exp_conf)
    trainer(**flags).fit(module)
    return module


def logged(logger: CSVLogger, name: str) -> list[tuple[int, float]]:
    with (Path(logger.log_dir) / "metrics.csv").open() as file:
        return [(int(r["step"]), float(r[name])) for r in csv.DictReader(file) if r.get(name)]


# How long, and when to validate


def test_max_epochs() -> None:
    module = fitted(max_epochs=3)
    assert module.trial.trained == list(range(12))
    epochs = [c[1] for c in module.trial.recorder.calls if c[0] == "on_training_epoch_end"]
    assert epochs == [0, 1, 2]


@pytest.mark.parametrize("trial_cls", [Linear, Gan])
def test_max_steps_counts_batches_whatever_the_number_of_optimizers(trial_cls: type) -> None:
    used = trainer(max_steps=6, max_epochs=-1)
    module = to_lightning(trial_cls)(hparams={})
    used.fit(module)
    assert used.global_step == 6
    assert module.run.state.batches_trained == 6


def test_max_steps_counts_batches_under_aggregation() -> None:
    used = trainer(max_steps=6, max_epochs=-1)
    module = LinearModule(hparams={}, aggregation_frequency=3)
    used.fit(module)
    assert used.global_step == len(module.trial.trained) == 6


@pytest.mark.parametrize(
    ("flags", "validations"),
    [
        ({"max_epochs": 2}, [4, 8]),
        ({"max_epochs": 2, "val_check_interval": 2}, [2, 4, 6, 8]),
        ({"max_epochs": 2, "val_check_interval": 0.25}, [1, 2, 3, 4, 5, 6, 7, 8]),
        ({"max_epochs": 4, "check_val_every_n_epoch": 2}, [8, 16]),
        ({"max_epochs": 3, "check_val_every_n_epoch": None, "val_check_interval": 5}, [5, 10]),
        ({"max_epochs": 2, "limit_train_batches": 3}, [3, 6]),
        ({"max_epochs": 2, "limit_train_batches": 0.5}, [2, 4]),
        ({"max_epochs": 2, "limit_val_batches": 0}, []),
        ({"max_epochs": 2, "limit_val_batches": 1}, [4, 8]),
        ({"fast_dev_run": True}, [1]),
        ({"fast_dev_run": 2}, [2]),
    ],
)
def test_when_validation_runs(flags: dict[str, Any], validations: list[int]) -> None:
    watch = Watch()
    module = fitted(callbacks=[watch], **flags)
    assert watch.validations == validations
    assert module.trial.recorder.hooks().count("on_validation_end") == len(validations)


def test_limit_train_batches_makes_shorter_epochs_of_the_same_stream() -> None:
    module = fitted(max_epochs=2, limit_train_batches=3)
    recorder = module.trial.recorder
    ends = [i for i, name in enumerate(recorder.hooks()) if name == "on_training_epoch_end"]
    assert module.trial.trained == [0, 1, 2, 3, 4, 5]
    assert [recorder.calls[i][1] for i in ends] == [0, 1]
    assert module.context._epoch_len == 3


def test_limit_val_batches() -> None:
    assert fitted(limit_val_batches=1).trial.evaluated == [0]
    assert fitted(limit_val_batches=0.5).trial.evaluated == [0]


def test_fast_dev_run() -> None:
    trial = fitted(fast_dev_run=True).trial
    assert (trial.trained, trial.evaluated) == ([0], [0])


def test_the_default_sanity_check_runs_nothing_of_the_users() -> None:
    resets = []

    class Reduces(Linear):
        def finish(self) -> None:
            reducer = self.context.wrap_reducer(len, name="count")
            reducer.reset = lambda: resets.append(list(self.trained))

    module = fitted(Reduces)
    assert module.trial.recorder.hooks()[:3] == [
        "on_trial_startup",
        "on_training_start",
        "on_training_epoch_start",
    ]
    assert module.trial.evaluated == [0, 1]
    assert resets == [[], [0, 1, 2, 3]]


def test_evaluation_is_done_without_gradients_but_outside_of_inference_mode() -> None:
    class Looks(Linear):
        def evaluate_batch(self, batch: Any) -> dict[str, Any]:
            assert not torch.is_grad_enabled()
            assert not torch.is_inference_mode_enabled()
            assert not self.model.training
            return {"x": 0}

        def train_batch(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
            assert torch.is_grad_enabled()
            assert self.model.training
            return super().train_batch(*args, **kwargs)

    module = fitted(Looks, max_epochs=2)
    trainer().validate(module, verbose=False)


# Metrics


def test_callbacks_see_the_metrics_under_the_trials_names() -> None:
    watch = Watch()
    module = fitted(callbacks=[watch], max_epochs=2)
    reports = [c[1] for c in module.trial.recorder.calls if c[0] == "on_validation_end"]
    seen = [metrics["validation_loss"] for metrics in watch.seen]
    assert seen == pytest.approx([float(r["validation_loss"]) for r in reports])
    assert [m["index"] for m in watch.seen_at_epoch_end] == [1.5, 5.5]
    assert set(watch.seen[0]) == {"loss", "index", "validation_loss"}


def test_training_metrics_are_averaged_over_each_100_batches(tmp_path: Path) -> None:
    class Long(Linear):
        def build_training_data_loader(self) -> Any:
            return DataLoader(rows(250), batch_size=1)

    logger = CSVLogger(tmp_path)
    fitted(Long, logger=logger, limit_val_batches=0)
    assert logged(logger, "index") == [(100, 49.5), (200, 149.5), (250, 224.5)]


def test_scheduling_unit_sets_the_reporting_period(tmp_path: Path) -> None:
    logger = CSVLogger(tmp_path)
    flags = {"logger": logger, "max_epochs": 3, "limit_val_batches": 0}
    module = fitted(exp_conf={"scheduling_unit": 3}, **flags)
    assert logged(logger, "index") == [(3, 1.0), (6, 4.0), (9, 7.0), (12, 10.0)]
    periods = [c[2] for c in module.trial.recorder.calls if c[0] == "on_training_workload_end"]
    assert [[batch["index"] for batch in period] for period in periods] == [
        [0, 1, 2],
        [3, 4, 5],
        [6, 7, 8],
        [9, 10, 11],
    ]


def test_a_validation_ends_the_reporting_period(tmp_path: Path) -> None:
    logger = CSVLogger(tmp_path)
    fitted(exp_conf={"scheduling_unit": 3}, logger=logger, max_epochs=2)
    assert logged(logger, "index") == [(3, 1.0), (4, 3.0), (6, 4.5), (8, 6.5)]
    assert [step for step, _ in logged(logger, "validation_loss")] == [4, 8]


def test_every_logger_gets_the_batch_count_as_step(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    csv_logger, board = CSVLogger(tmp_path / "csv"), TensorBoardLogger(tmp_path / "board")
    fitted(Gan, logger=[csv_logger, board], max_epochs=2)
    events = EventAccumulator(board.log_dir)
    events.Reload()
    for name in ("g_loss", "d_loss", "fake"):
        from_csv = logged(csv_logger, name)
        assert [step for step, _ in from_csv] == [4, 8]
        scalars = [(event.step, event.value) for event in events.Scalars(name)]
        assert scalars == [(step, pytest.approx(value)) for step, value in from_csv]
    assert "batches" not in events.Tags()["scalars"]


def test_tensorboard_of_the_trial_is_the_loggers_directory(tmp_path: Path) -> None:
    class Writes(Linear):
        def finish(self) -> None:
            self.writer = self.context.get_tensorboard_writer()
            self.writer.add_scalar("mine", 1.0, 0)

    logger = TensorBoardLogger(tmp_path)
    module = fitted(Writes, logger=logger)
    module.trial.writer.close()
    assert module.context.get_tensorboard_path() == Path(logger.log_dir)
    assert len(list(Path(logger.log_dir).glob("events.*"))) == 2


def test_validation_does_not_clobber_a_training_metric() -> None:
    class SameNames(Linear):
        def train_batch(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
            super().train_batch(*args, **kwargs)
            return {"loss": torch.tensor(1.0), "accuracy": 0.5}

        def evaluate_batch(self, batch: Any) -> dict[str, Any]:
            return {"loss": 3.0, "other": 4.0}

    used = trainer()
    module = to_lightning(SameNames)(hparams={})
    used.fit(module)
    metrics = {name: float(value) for name, value in used.callback_metrics.items()}
    assert metrics == {"loss": 1.0, "accuracy": 0.5, "val_loss": 3.0, "other": 4.0}
    reported = [c[1] for c in module.trial.recorder.calls if c[0] == "on_validation_end"]
    assert reported[0] == {"loss": 3.0, "other": 4.0}


def test_progress_bar(capsys: pytest.CaptureFixture[str]) -> None:
    used = trainer(enable_progress_bar=True, callbacks=[pl.callbacks.TQDMProgressBar()])
    used.fit(LinearModule(hparams={}))
    assert {"loss", "index", "validation_loss"} <= set(used.progress_bar_metrics)
    output = "".join(capsys.readouterr())
    assert "4/4" in output
    assert "validation_loss=" in output
    assert "loss=" in output


def calls_per_batch(monkeypatch: pytest.MonkeyPatch, batches: int, names: Any) -> dict[str, int]:
    class Long(Linear):
        def build_training_data_loader(self) -> Any:
            return DataLoader(rows(batches), batch_size=1)

    counts: dict[str, int] = {}

    def counting(owner: Any, name: str) -> Callable[..., Any]:
        original = getattr(owner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            counts[name] = counts.get(name, 0) + 1
            return original(*args, **kwargs)

        return call

    with monkeypatch.context() as patch:
        for owner, name in names:
            patch.setattr(owner, name, counting(owner, name))
        fitted(Long, limit_val_batches=0)
    return counts


def test_no_synchronization_and_no_logging_per_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    tensor = ["item", "cpu", "tolist", "__float__", "__bool__", "__int__", "to"]
    names = [(torch.Tensor, name) for name in tensor]
    names += [(pl.LightningModule, "log"), (pl.LightningModule, "log_dict")]
    check_defaults()  # a method that is replaced makes Lightning one that is looked at
    few = calls_per_batch(monkeypatch, 20, names)
    many = calls_per_batch(monkeypatch, 60, names)
    assert many == few


# Callbacks of Lightning's


class Falling(Linear):
    """Validation and training metrics that improve, then stay."""

    def train_batch(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        super().train_batch(*args, **kwargs)
        return {"flat": 1.0}

    def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        return {"score": [3.0, 1.0, 2.0, 2.0][len(self.trained) // 4 - 1]}


def test_model_checkpoint_by_a_validation_metric(tmp_path: Path) -> None:
    best = ModelCheckpoint(tmp_path, "{step}-{score:.1f}", monitor="score", save_top_k=2)
    module = fitted(Falling, max_epochs=4, callbacks=[best], enable_checkpointing=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "step=12-score=2.0.ckpt",
        "step=8-score=1.0.ckpt",
    ]
    assert float(best.best_model_score) == 1.0
    restored = to_lightning(Falling).load_from_checkpoint(best.best_model_path)
    assert not same(weights(restored), weights(module))


# The weights after the optimizer step are what is wanted.
@pytest.mark.filterwarnings("ignore:Using ModelCheckpoint with manual optimization")
def test_model_checkpoint_every_n_train_steps_and_last(tmp_path: Path) -> None:
    checkpoint = ModelCheckpoint(
        tmp_path, "{step}", every_n_train_steps=3, save_top_k=-1, save_last=True
    )
    module = fitted(Gan, max_epochs=2, callbacks=[checkpoint], enable_checkpointing=True)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"step=3.ckpt", "step=6.ckpt", "last.ckpt"}
    saves = module.trial.recorder.hooks().count("on_checkpoint_save_start")
    assert saves == 4  # each of the two, and each time the last


def test_the_default_checkpoint_can_be_loaded(tmp_path: Path) -> None:
    used = trainer(enable_checkpointing=True, default_root_dir=tmp_path)
    module = LinearModule(hparams={})
    used.fit(module)
    [path] = tmp_path.rglob("*.ckpt")
    assert path.name == "epoch=0-step=4.ckpt"
    assert same(weights(LinearModule.load_from_checkpoint(path)), weights(module))


@pytest.mark.parametrize(
    ("monitor", "at_epoch_end", "epochs"), [("score", False, 3), ("flat", True, 2)]
)
def test_early_stopping(monitor: str, at_epoch_end: bool, epochs: int) -> None:
    stop = EarlyStopping(monitor, patience=1, check_on_train_epoch_end=at_epoch_end)
    module = fitted(Falling, max_epochs=10, callbacks=[stop])
    assert len(module.trial.trained) == 4 * epochs


def test_early_stopping_on_a_name_that_is_not_there_says_which_are() -> None:
    with pytest.raises(RuntimeError, match="`flat`, `score`"):
        fitted(Falling, callbacks=[EarlyStopping("nope")])


class Scheduled(Linear):
    """A scheduler that halves the rate after each batch."""

    def finish(self) -> None:
        scheduler = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.5)
        self.scheduler = self.context.wrap_lr_scheduler(
            scheduler, LRScheduler.StepMode.STEP_EVERY_BATCH
        )


def test_learning_rate_monitor(tmp_path: Path) -> None:
    logger = CSVLogger(tmp_path)
    monitor = LearningRateMonitor(logging_interval="step")
    fitted(Scheduled, logger=logger, callbacks=[monitor], log_every_n_steps=1)
    assert logged(logger, "lr-SGD") == [(step, pytest.approx(0.1 * 0.5**step)) for step in range(4)]


def test_simple_profiler(tmp_path: Path) -> None:
    profiler = SimpleProfiler(tmp_path, "profile")
    fitted(profiler=profiler)
    assert len(profiler.recorded_durations["run_training_batch"]) == 4
    [report] = tmp_path.glob("*.txt")
    assert "run_training_batch" in report.read_text()


def test_metrics_that_are_no_scalars_do_not_reach_the_loggers(tmp_path: Path) -> None:
    class Odd(Linear):
        def train_batch(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
            super().train_batch(*args, **kwargs)
            return {"nan": float("nan"), "list": [1, 2], "text": "x", "nested": {"a": 1}}

    logger = CSVLogger(tmp_path)
    module = fitted(Odd, logger=logger)
    [(step, value)] = logged(logger, "nan")
    assert step == 4
    assert np.isnan(value)
    with (Path(logger.log_dir) / "metrics.csv").open() as file:
        assert "text" not in file.readline()
    [averages] = [c[1] for c in module.trial.recorder.calls if c[0] == "on_training_workload_end"]
    assert averages["list"] == 1.5


# Resuming


class Stateful(PyTorchCallback):
    """Counts epochs over all runs."""

    def __init__(self) -> None:
        self.epochs = 0

    def on_training_epoch_end(self, epoch_idx: int) -> None:
        self.epochs += 1

    def state_dict(self) -> dict[str, Any]:
        return {"epochs": self.epochs}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.epochs = state_dict["epochs"]


class Resumed(Normed):
    """Dropout, BatchNorm, Adam, a scheduler, a shuffled loader, and a stateful callback."""

    def finish(self) -> None:
        scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 3, 0.5)
        self.scheduler = self.context.wrap_lr_scheduler(
            scheduler, LRScheduler.StepMode.STEP_EVERY_BATCH
        )
        self.stateful = Stateful()

    def net(self) -> nn.Module:
        return nn.Sequential(Net(), nn.Dropout(0.2))

    def build_callbacks(self) -> dict[str, PyTorchCallback]:
        return {"recorder": self.recorder, "stateful": self.stateful}

    def train_batch(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        noise = np.random.rand() + random.random()
        return {**super().train_batch(*args, **kwargs), "noise": noise}

    def build_training_data_loader(self) -> Any:
        # The order of the data is the loader's own, not a matter of the global random state.
        generator = torch.Generator().manual_seed(5)
        return DataLoader(rows(), batch_size=4, shuffle=True, generator=generator)


def run_resumed(ckpt_path: str | None = None, **flags: Any) -> Any:
    module = to_lightning(Resumed)(hparams={})
    trainer(**flags).fit(module, ckpt_path=ckpt_path)
    return module


def random_numbers() -> list[float]:
    return [torch.rand(()).item(), np.random.rand(), random.random()]


@pytest.mark.filterwarnings("ignore:Using ModelCheckpoint with manual optimization")
@pytest.mark.filterwarnings("ignore:Be aware that when using `ckpt_path`")
@pytest.mark.filterwarnings("ignore:You're resuming from a checkpoint that ended before the epoch")
@pytest.mark.parametrize(
    ("period", "batches"), [({"every_n_epochs": 1}, 8), ({"every_n_train_steps": 6}, 6)]
)
def test_resuming_goes_on_as_if_nothing_had_happened(
    period: dict[str, int], batches: int, tmp_path: Path
) -> None:
    save = ModelCheckpoint(tmp_path, "{step}", save_top_k=-1, **period)
    whole = run_resumed(max_epochs=4, callbacks=[save], enable_checkpointing=True)
    expected = random_numbers()
    path = str(tmp_path / f"step={batches}.ckpt")
    resumed = run_resumed(path, max_epochs=4)
    trial = resumed.trial
    assert trial.trained == list(range(batches, 16))
    assert trial.recorder.calls[0] == ("on_trial_startup", batches, path)
    assert "on_checkpoint_load_start" in trial.recorder.hooks()
    assert trial.stateful.epochs == 4
    assert trial.scheduler.get_last_lr() == whole.trial.scheduler.get_last_lr()
    assert same(weights(resumed), weights(whole))
    ours, theirs = (module.trial.optimizer.state_dict() for module in (resumed, whole))
    assert str(ours) == str(theirs)
    assert random_numbers() == expected


def test_resuming_restores_the_state_of_lightnings_callbacks(tmp_path: Path) -> None:
    path = tmp_path / "part.ckpt"
    first = trainer(max_epochs=1, callbacks=[EarlyStopping("score", patience=7)])
    first.fit(to_lightning(Falling)(hparams={}))
    first.save_checkpoint(path)
    again = EarlyStopping("score", patience=1)
    module = to_lightning(Falling)(hparams={})
    trainer(max_epochs=1, callbacks=[again]).fit(module, ckpt_path=str(path))
    assert again.patience == 7 or float(again.best_score) == 3.0
    assert module.trial.trained == []


def test_validating_a_checkpoint_loads_its_weights(tmp_path: Path) -> None:
    used, module = trainer(), LinearModule(hparams={})
    used.fit(module)
    used.save_checkpoint(tmp_path / "model.ckpt")
    [expected] = trainer().validate(module, verbose=False)
    fresh = LinearModule(hparams={})
    [found] = trainer().validate(fresh, ckpt_path=str(tmp_path / "model.ckpt"), verbose=False)
    assert found["validation_loss"] == expected["validation_loss"]


class Stops(Linear):
    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
        if batch_idx == 2:
            self.context.set_stop_requested(True)
        return super().train_batch(batch, epoch_idx, batch_idx)


def test_a_trial_may_ask_to_stop() -> None:
    module = to_lightning(Stops)(hparams={}, exp_conf={"scheduling_unit": 3})
    trainer(max_epochs=5).fit(module)
    assert module.run.state.batches_trained == 3


def test_names_of_validation_metrics_are_those_of_the_run_that_was_saved(tmp_path: Path) -> None:
    module_cls = to_lightning(Linear)
    fitting = trainer(max_epochs=1)
    fitting.fit(module_cls(hparams={}))
    fitting.save_checkpoint(tmp_path / "saved.ckpt")
    names = set(trainer().validate(module_cls.load_from_checkpoint(tmp_path / "saved.ckpt"))[0])
    assert names <= set(fitting.callback_metrics)


def test_what_has_no_average_is_not_shown_at_the_end_of_an_epoch() -> None:
    class Named(Linear):
        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
            return {**super().train_batch(batch, epoch_idx, batch_idx), "name": "cat"}

    class Looks(pl.Callback):
        def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
            self.seen = {**trainer.callback_metrics}

    looks = Looks()
    trainer(callbacks=[looks]).fit(to_lightning(Named)(hparams={}))
    assert "loss" in looks.seen
    assert "name" not in looks.seen


@pytest.mark.parametrize(
    ("callbacks", "made"), [([], 0), ([pl.Callback()], 2)], ids=["none", "one"]
)
def test_averages_of_a_period_under_way_are_made_if_a_callback_can_see_them(
    callbacks: list[pl.Callback], made: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Training] = []
    averages_so_far = Training.averages_so_far

    def noted(self: Training) -> dict[str, Any]:
        asked.append(self)
        return averages_so_far(self)

    monkeypatch.setattr(Training, "averages_so_far", noted)
    module = LinearModule(hparams={})
    found = trainer(max_epochs=2, limit_val_batches=0, callbacks=callbacks)
    found.fit(module)
    assert len(asked) == made
    assert "loss" in found.callback_metrics

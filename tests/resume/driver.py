"""Trains the subject to its end, or from one of its checkpoints, and tells what came of it."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from typing import Any

import pytorch_lightning as pl

from det_compat import core, pytorch, to_lightning
from det_compat.pytorch import Batch, Epoch
from tests.resume.subject import EPOCHS, PERIOD, Subject, seed

REPORTS: list[Any] = []


class Events(pl.Callback):
    """What Lightning's own callbacks see, and a checkpoint at each of these moments."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.marks: dict[str, tuple[int, int, int]] = {}
        self.seen: list[Any] = []

    def note(self, hook: str, trainer: pl.Trainer, module: Any) -> None:
        metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
        batches = module.run.state.batches_trained
        self.seen.append((hook, batches, trainer.current_epoch, trainer.global_step, metrics))
        if self.folder is not None:
            name = f"{batches}-{hook}.ckpt"
            self.marks[name] = (len(REPORTS), len(self.seen), len(module.trial.batches))
            trainer.save_checkpoint(self.folder / name)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *args: Any) -> None:
        self.note("batch", trainer, pl_module)

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        self.note("validation", trainer, pl_module)

    def on_train_epoch_start(self, trainer: Any, pl_module: Any) -> None:
        if self.folder is not None and trainer.current_epoch > 0:
            # Called again in a run that is resumed from here, so it is not among `seen`.
            name = f"{pl_module.run.state.batches_trained}-start.ckpt"
            self.marks[name] = (len(REPORTS), len(self.seen), len(pl_module.trial.batches))
            trainer.save_checkpoint(self.folder / name)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        self.note("epoch", trainer, pl_module)


def record_reports() -> None:
    """Have ``REPORTS`` collect what is reported."""
    for name in ("report_training_metrics", "report_validation_metrics"):

        def report(self: Any, *args: Any, name: str = name, **kwargs: Any) -> None:
            REPORTS.append((name, copy.deepcopy(args), copy.deepcopy(kwargs)))

        setattr(core.TrainContext, name, report)


def lightning(
    folder: Path | None = None,
    start: Path | None = None,
    *,
    trial_cls: type = Subject,
    hparams: Any = None,
    aggregation: int = 3,
    devices: int = 1,
    first_seed: int = 5,
    **flags: Any,
) -> dict[str, Any]:
    """A run of ``to_lightning`` under a plain Trainer."""
    REPORTS.clear()
    seed(first_seed)
    events = Events(folder)
    module = to_lightning(trial_cls)(
        hparams={"global_batch_size": 4, **(hparams or {})}, aggregation_frequency=aggregation
    )
    module.reporting_period = PERIOD
    given = {"max_epochs": EPOCHS, "devices": devices, "accelerator": "cpu", **flags}
    if devices > 1:
        given["strategy"] = "ddp"
    trainer = pl.Trainer(
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[events],
        **given,
    )
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*does not have many workers.*")
        trainer.fit(module, ckpt_path=start)
    found = _outcome(module.trial, module.context)
    return {**found, "seen": events.seen, "marks": events.marks}


class Marks(pytorch.PyTorchCallback):
    """Notes, for each checkpoint directory, what had happened when it was written."""

    def __init__(self, trial: Any) -> None:
        self.trial = trial
        self.marks: dict[str, tuple[int, int, int]] = {}

    def on_checkpoint_write_end(self, checkpoint_dir: str) -> None:
        self.marks[checkpoint_dir] = (len(REPORTS), 0, len(self.trial.batches))


def determined(
    start: str | None = None,
    *,
    trial_cls: type = Subject,
    hparams: Any = None,
    aggregation: int = 3,
    first_seed: int = 5,
    **periods: Any,
) -> dict[str, Any]:
    """A run of ``pytorch.Trainer``."""
    REPORTS.clear()
    marked: list[Marks] = []

    class Marked(trial_cls):
        def build_callbacks(self) -> Any:
            marked.append(Marks(self))
            return {**super().build_callbacks(), "marks": marked[0]}

    with pytorch.init(
        hparams={"global_batch_size": 4, **(hparams or {})},
        aggregation_frequency=aggregation,
        enable_tensorboard_logging=False,
    ) as context:
        seed(first_seed)
        trial = Marked(context)
        pytorch.Trainer(trial, context).fit(
            **{
                "max_length": Epoch(EPOCHS),
                "validation_period": Epoch(1),
                "checkpoint_period": Batch(1),
                "reporting_period": Batch(PERIOD),
                **periods,
            },
            latest_checkpoint=start,
        )
        return {**_outcome(trial, context), "seen": [], "marks": marked[0].marks}


def _outcome(trial: Any, context: Any) -> dict[str, Any]:
    return copy.deepcopy(
        {
            "reports": REPORTS,
            "batches": trial.batches,
            "weights": [model.state_dict() for model in context._inner_models],
            "optimizers": [optimizer.state_dict() for optimizer in context.optimizers],
            "schedulers": [scheduler.state_dict() for scheduler in context.lr_schedulers],
            "callbacks": trial.counting.state_dict(),
        }
    )

"""Determined's policy for checkpoints, as a callback of ``pl.Trainer``."""

import contextlib
import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.trainer.states import TrainerFn

from det_compat.adapters.checkpoints.checkpoint_keeper import CheckpointKeeper
from det_compat.adapters.lightning.run_module import RunModule
from det_compat.core.retention import (
    CheckpointPolicy,
    RetainedCheckpoints,
    RetentionPolicy,
    check_count,
)
from det_compat.core.storage.write_failures import named_write_failures


def checkpoint_callbacks(
    searcher_metric: str,
    smaller_is_better: bool = True,
    save_trial_best: int = 1,
    save_trial_latest: int = 1,
    dirpath: str | os.PathLike[str] | None = None,
    *,
    checkpoint_policy: str = "best",
    checkpoint_period: int = 0,
) -> list[ModelCheckpoint]:
    """The callbacks that save a trial's checkpoints, and keep those that Determined would keep.

    One callback saves each checkpoint once, as ``batches=N.ckpt``, and deletes what is neither
    among the best nor among the latest. Two of Lightning's own, one for the best and one for the
    latest, would save the same checkpoint twice, and of equal metrics delete the wrong one.

    Args:
        searcher_metric: the validation metric, by the trial's name for it.
        smaller_is_better: whether its best value is the smallest one.
        save_trial_best: how many checkpoints with the best metric are kept.
        save_trial_latest: how many of the latest are kept.
        dirpath: where, a directory or a URL of fsspec; by default as Lightning's ModelCheckpoint.
        checkpoint_policy: after which validations a checkpoint is saved: "best", "all" or "none".
            One is saved at the end of training in any case.
        checkpoint_period: batches after which one is saved as well; 0 means never.

    Raises:
        ValueError: a number is negative or no integer, or there is no such policy.
    """
    check_count("checkpoint_period", checkpoint_period)
    retention = RetentionPolicy(0, save_trial_best, save_trial_latest, smaller_is_better)
    due = CheckpointPolicy(checkpoint_policy, smaller_is_better)
    return [DeterminedCheckpoint(searcher_metric, due, retention, dirpath, checkpoint_period)]


class DeterminedCheckpoint(ModelCheckpoint):
    """Saves and deletes checkpoints as Determined 0.38.1 did, at the end of the run likewise.

    Names, directory and state are those of ModelCheckpoint. ``best_model_path`` is the kept
    checkpoint with the best metric; ``last_model_path`` is the latest, which ``ckpt_path="last"``
    finds in a new process too. A resumed run goes on to delete what it has saved before, if
    ``dirpath`` is the same.

    A file that could not be written is removed, and CheckpointWriteError raised. A kill may leave
    one that is cut off, but not where the Trainer has the plugin DeterminedCheckpointIO.

    Args:
        searcher_metric: the validation metric, by the trial's name for it.
        due: says after which validations a checkpoint is saved.
        retention: says which are kept.
        dirpath: where, as for ModelCheckpoint.
        period: batches after which one is saved as well; 0 means never.
    """

    # `ckpt_path="last"` looks for files whose names begin so.
    CHECKPOINT_NAME_LAST = "batches="

    def __init__(
        self,
        searcher_metric: str,
        due: CheckpointPolicy,
        retention: RetentionPolicy,
        dirpath: str | os.PathLike[str] | None = None,
        period: int = 0,
    ) -> None:
        super().__init__(
            dirpath=None if dirpath is None else os.fspath(dirpath),
            filename="batches={step}",
            auto_insert_metric_name=False,
            save_top_k=-1,
            mode="min" if retention.smaller_is_better else "max",
        )
        self.searcher_metric = searcher_metric
        self._period = period
        self._retained = RetainedCheckpoints(self._delete, retention)
        self._keeper = CheckpointKeeper(due, searcher_metric, self._retained)
        self._remove: Callable[[str], None] | None = None
        # The batches after which the last checkpoint was saved, and one is being saved.
        self._saved_after = 0
        self._saving_after: int | None = None

    @property
    def state_key(self) -> str:
        return f"{type(self).__qualname__}{{'searcher_metric': {self.searcher_metric!r}}}"

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        if not isinstance(pl_module, RunModule):
            raise TypeError(
                f"{type(self).__name__} saves checkpoints of trials, got a "
                f"{type(pl_module).__name__}; use Lightning's ModelCheckpoint"
            )
        super().setup(trainer, pl_module, stage)
        self._remove = trainer.strategy.remove_checkpoint

    def on_train_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
    ) -> None:
        if self._period and _batches(pl_module) % self._period == 0:
            self._save(trainer, pl_module)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Nothing: checkpoints are due after validations."""

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.state.fn != TrainerFn.FITTING or trainer.sanity_checking:
            return
        metrics = {self.searcher_metric: self._metric(trainer, pl_module)}
        is_due = self._keeper.validated(_batches(pl_module), metrics)
        if trainer.strategy.broadcast(is_due):
            self._save(trainer, pl_module)
        self._show_best()

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._save(trainer, pl_module)
        self._keeper.finish()
        self._show_best()

    def on_exception(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException
    ) -> None:
        """Nothing: what a failed run has saved stays as it is."""

    def _metric(self, trainer: pl.Trainer, module: Any) -> float:
        names = module.publisher.validation_names
        if self.searcher_metric not in names:
            raise ValueError(
                f"the searcher metric {self.searcher_metric!r} is not among the numbers that this "
                f"validation returned: {', '.join(sorted(names)) or 'there were none'}"
            )
        return float(trainer.callback_metrics[names[self.searcher_metric]])

    def _save(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        batches = _batches(module)
        if batches == self._saved_after or getattr(trainer, "fast_dev_run", False):
            return
        path = self._new_path(trainer, batches)
        # Both are part of the checkpoint, so that a run that goes on from it knows of it.
        self.best_model_path, self._saving_after = path, batches
        self._write(trainer, path)
        self._note(path, batches)
        for logger in trainer.loggers if trainer.is_global_zero else ():
            logger.after_save_checkpoint(weakref.proxy(self))

    def _write(self, trainer: pl.Trainer, path: str) -> None:
        try:
            with named_write_failures(path, self.last_model_path or None, Path(str(self.dirpath))):
                trainer.save_checkpoint(path, self.save_weights_only)
        except BaseException:
            self._saving_after = None
            with contextlib.suppress(OSError):
                self._delete(path)
            self._show_best()
            raise

    def _new_path(self, trainer: pl.Trainer, batches: int) -> str:
        step = torch.tensor(batches)
        path = self.format_checkpoint_name({"step": step})
        version = self.STARTING_VERSION
        while self.file_exists(path, trainer):
            path = self.format_checkpoint_name({"step": step}, ver=version)
            version += 1
        return path

    def _note(self, path: str, batches: int) -> None:
        self._saving_after, self._saved_after, self.last_model_path = None, batches, path
        self._keeper.saved(path, batches)
        self._show_best()

    def _show_best(self) -> None:
        best = self._retained.best()
        self.best_model_path = self.last_model_path if best is None else best.uuid
        self.best_model_score = None if best is None else torch.tensor(best.metric)

    def _delete(self, path: str) -> None:
        if self._remove is not None:
            self._remove(path)

    def state_dict(self) -> dict[str, Any]:
        kept = self._keeper.state_dict()
        return {
            **super().state_dict(),
            "retained": kept["retained"],
            "due": kept["policy"],
            "saved_after": self._saved_after,
            "saving_after": self._saving_after,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        kept = {"policy": state_dict["due"], "retained": state_dict["retained"]}
        is_same_run = state_dict["dirpath"] == self.dirpath
        self._keeper.load_state_dict(kept, owns_start=is_same_run)
        if not is_same_run:
            return
        self._saved_after = state_dict["saved_after"]
        if state_dict["saving_after"] is not None:
            self._note(state_dict["best_model_path"], state_dict["saving_after"])


def _batches(module: Any) -> int:
    """Batches that a trial has trained."""
    trained: int = module.run.state.batches_trained
    return trained

"""Going on from a checkpoint: all phases of it, in their order."""

from __future__ import annotations

import dataclasses
import logging
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch

from det_compat.adapters.checkpoints import continuation, lightning_part
from det_compat.adapters.checkpoints.run_state import restore_run
from det_compat.adapters.data.loaders import UNSIZED
from det_compat.adapters.lightning.loop_progress import ended_epoch, go_on_after
from det_compat.adapters.lightning.package import pl
from det_compat.adapters.run.trial_run import TrialRun
from det_compat.checkpoint import reader
from det_compat.checkpoint.reader import (
    check_content,
    putting_back,
    read_checkpoint,
    trusts_checkpoints,
)
from det_compat.pytorch.private.boundaries import TrialState

logger = logging.getLogger("det_compat")

_COUNTERS = {field.name for field in dataclasses.fields(TrialState)}


class Resume:
    """A run that goes on from the state of a checkpoint, in four phases::

        begin                    callbacks start and loaders are built, where the checkpoint was
        restore                  models, optimizers and all that a batch changes come back
        enter_loops              Lightning's loops go on after the batches that were trained
        restore_random_states    the last of all, since what comes before may draw

    With a ``continuation`` for as many ranks as there are now, the run goes on exactly. Without
    one, as in checkpoints of Determined, it goes on as Determined did: the batches that were
    trained on are left out of the training data, whose order may be another.

    Args:
        run: the run.
        state: the keys of ``state_dict.pth``, and ``trial_state``, the counters; beside them
            ``continuation``, and ``loops`` where Lightning wrote the checkpoint.
        path: the checkpoint, for messages.
    """

    def __init__(
        self, run: TrialRun, state: dict[str, Any], path: object = "the checkpoint"
    ) -> None:
        self._run = run
        self._path = path
        self._state = state
        self._own: dict[str, Any] | None = None
        self._counters = state.get("trial_state") or {}

    @classmethod
    def of_directory(cls, run: TrialRun, directory: str | Path) -> Resume:
        """Read a checkpoint directory of Determined or det_compat.

        Raises:
            InvalidCheckpointException: something in it is missing or of another type.
        """
        found = read_checkpoint(directory, trust=trusts_checkpoints())
        check_content(found.path, found.state, found.counters, found.continuation)
        more = {"trial_state": found.counters, "continuation": found.continuation}
        return cls(run, {**found.state, **more}, found.path)

    @classmethod
    def of_lightning(
        cls, run: TrialRun, checkpoint: dict[str, Any], path: object, *, whole: bool
    ) -> Resume:
        """Take up a checkpoint that Lightning has read, and is about to put back in part.

        ``whole`` says that nothing may be left to Lightning.

        Raises:
            InvalidCheckpointException: states of optimizers are none that can be put back.
        """
        _check_optimizers(path, run.context.optimizers, checkpoint.get("optimizer_states"))
        state = {**checkpoint["determined"], "loops": checkpoint.get("loops")}
        if whole:
            state = {**lightning_part.kept_by_lightning(checkpoint, run), **state}
        return cls(run, state, path)

    @property
    def continuation(self) -> dict[str, Any]:
        """What the checkpoint has for all ranks; empty where Determined wrote it."""
        return self._state.get("continuation") or {}

    def begin(self, started_from: str | None) -> None:
        """Start the run where the checkpoint is; ``started_from`` is its name.

        Raises:
            InvalidCheckpointException: the place that the checkpoint names cannot be taken up.
        """
        run = self._run
        known = {name: self._counters.get(name) or 0 for name in _COUNTERS}
        run.state = TrialState(**known)
        with self._putting_back("continuation"):
            self._own = continuation.of_this_rank(run, self.continuation or None)
        if self._own is not None:
            with self._putting_back("random states"):
                continuation.try_random_states(self._own)
        if self._counters.get("batches_trained") is None:
            logger.warning(
                "the checkpoint does not say how many batches were trained: weights, optimizers "
                "and callbacks go on, batches and data start from 0"
            )
        run.begin(started_from, skip=self._batches_to_skip(), continues=self._own)

    def _batches_to_skip(self) -> int:
        batches = self._run.state.batches_trained
        if not self.continuation:
            return batches
        return batches * len(self.continuation["ranks"]) // self._run.context.distributed.size

    def count_epochs(self) -> None:
        """Count epochs, whose length a Trainer may have limited by now; warn if it is another."""
        then, run = self.continuation, self._run
        if self._counters.get("epochs_trained") is None:
            run.state.epochs_trained = run.state.batches_trained // run.epoch_len
        if not then or not run.is_chief:
            return
        before, now = len(then["ranks"]), run.context.distributed.size
        if before != now:
            logger.warning(
                f"the run goes on with ranks: {now}, its checkpoint was written with: {before}. "
                "Weights, optimizers, schedulers and callbacks go on. What changes: "
                f"batches of a step: {now} instead of {before}; an epoch is "
                f"{_count(run.epoch_len)} steps instead of {_count(then['epoch_len'])}; the data "
                "go on after the "
                f"{run.state.batches_trained * before} batches that all ranks together were "
                "trained on, in an order drawn anew where it is random; random states are those "
                "of the chief; metrics and gradients that were half collected are dropped"
            )
        elif then["epoch_len"] != run.epoch_len:
            logger.warning(
                f"an epoch has {_count(run.epoch_len)} batches, and had "
                f"{_count(then['epoch_len'])} when the checkpoint was written: "
                "epochs and the order of the data change"
            )

    def restore(self) -> None:
        """Put back models, optimizers and all that a batch changes.

        Raises:
            InvalidCheckpointException: a part of it cannot be put back.
            RuntimeError, ValueError: it is of other models.
        """
        state = self._state
        if self._own is not None and self._own.get("callbacks") is not None:
            state = {**state, "callbacks": {**state.get("callbacks", {}), **self._own["callbacks"]}}
        restore_run(self._run, state, self._path)
        if self._own is not None:
            with self._putting_back("half-collected metrics and gradients"):
                continuation.restore_collected(self._run, self._own)
        if self.continuation.get("stop_requested"):
            self._run.context.set_stop_requested(True)

    def enter_loops(self, trainer: pl.Trainer) -> None:
        """Have Lightning's loops go on after the batches that were trained."""
        run = self._run
        batches, epoch_len = run.state.batches_trained, run.epoch_len
        if epoch_len == 0:  # limit_train_batches leaves nothing to train.
            return
        self.count_epochs()
        is_over = ended_epoch(self._state.get("loops"))
        go_on_after(trainer, batches, epoch_len, epoch_is_over=is_over)
        assert run.stream is not None
        run.stream.epoch_is_over = batches > 0 and batches % epoch_len == 0 and not is_over

    def is_after_an_epoch(self) -> bool:
        """Whether Lightning had ended an epoch, and not begun another, at the checkpoint."""
        run = self._run
        assert run.stream is not None
        return run.state.batches_trained % run.epoch_len == 0 and not run.stream.epoch_is_over

    def restore_random_states(self) -> None:
        """Put back the random states; last, since what comes before may draw."""
        if self._own is not None:
            with self._putting_back("random states"):
                continuation.restore_random_states(self._run, self._own)

    def _putting_back(self, part: str) -> AbstractContextManager[None]:
        return putting_back(self._path, part)


def _count(batches: int) -> str:
    return "an unknown number of" if batches >= UNSIZED else str(batches)


def _check_optimizers(path: object, optimizers: list[Any], states: Any) -> None:
    """Raise InvalidCheckpointException for states that Lightning could not put back."""
    with reader.putting_back(path, "optimizer_states", reader.WRONG_TYPE):
        pairs = [*zip(optimizers, states or (), strict=False)]
    for index, (optimizer, state) in enumerate(pairs):
        own = getattr(type(optimizer), "load_state_dict", None)
        if own is torch.optim.Optimizer.load_state_dict:
            reader.check_optimizer(path, f"optimizer_states[{index}]", state)

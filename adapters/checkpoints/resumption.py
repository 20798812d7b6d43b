"""Going on from a checkpoint."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

from det_compat.adapters.checkpoints.continuation import (
    of_this_rank,
    restore_collected,
    restore_random_states,
)
from det_compat.adapters.checkpoints.run_state import restore_run
from det_compat.adapters.run.trial_run import TrialRun
from det_compat.adapters.run.trial_state import TrialState
from det_compat.checkpoint.content import check_content
from det_compat.checkpoint.reader import Checkpoint

logger = logging.getLogger("det_compat")

_COUNTERS = {field.name for field in dataclasses.fields(TrialState)}


def state_of(checkpoint: Checkpoint) -> dict[str, Any]:
    """A checkpoint directory's content, as Resumption takes it.

    Raises:
        InvalidCheckpointException: something in it is missing or of another type.
    """
    check_content(checkpoint.path, checkpoint.state, checkpoint.counters, checkpoint.continuation)
    return {
        **checkpoint.state,
        "trial_state": checkpoint.counters,
        "continuation": checkpoint.continuation,
    }


class Resumption:
    """A run that goes on from the state of a checkpoint.

    With a ``continuation`` for as many ranks as there are now, it goes on exactly. Without one, as
    in checkpoints of Determined, it goes on as Determined did: the batches that were trained on
    are left out of the training data, whose order may be another.

    Args:
        run: the run.
        state: the keys of ``state_dict.pth``, and ``trial_state``, the counters; beside them
            ``continuation``, and ``loops`` where Lightning wrote the checkpoint.
    """

    def __init__(self, run: TrialRun, state: dict[str, Any]) -> None:
        self._run = run
        self._state = state
        self._continuation: dict[str, Any] | None = state.get("continuation")
        self._own = of_this_rank(run, self._continuation)
        self._counters = state.get("trial_state") or {}
        known = {name: self._counters.get(name) or 0 for name in _COUNTERS}
        run.state = TrialState(**known)

    def begin(self, checkpoint: str | None) -> None:
        """Start the run where the checkpoint is."""
        run = self._run
        if self._counters.get("batches_trained") is None:
            logger.warning(
                "the checkpoint does not say how many batches were trained: weights, optimizers "
                "and callbacks go on, batches and data start from 0"
            )
        run.begin(checkpoint, skip=self._batches_to_skip(), continues=self._own)
        if self._counters.get("epochs_trained") is None:
            run.state.epochs_trained = run.state.batches_trained // run.epoch_len
        self._say_what_changed()

    def _batches_to_skip(self) -> int:
        batches = self._run.state.batches_trained
        if self._continuation is None:
            return batches
        return batches * len(self._continuation["ranks"]) // self._run.context.distributed.size

    def _say_what_changed(self) -> None:
        then, run = self._continuation, self._run
        if then is None or not run.is_chief:
            return
        before, now = len(then["ranks"]), run.context.distributed.size
        if before != now:
            logger.warning(
                f"the checkpoint was written by {before} ranks, and {now} go on. Weights, "
                "optimizers, schedulers and callbacks go on. What changes: "
                f"a step takes {now} batches instead of {before}; an epoch is {run.epoch_len} "
                f"steps instead of {then['epoch_len']}; the data go on after the "
                f"{run.state.batches_trained * before} batches that all ranks together were "
                "trained on, in an order drawn anew where it is random; random states are those "
                "of the chief; metrics and gradients that were half collected are dropped"
            )
        elif then["epoch_len"] != run.epoch_len:
            logger.warning(
                f"the training loader has {run.epoch_len} batches, and had {then['epoch_len']} "
                "when the checkpoint was written: epochs and the order of the data change"
            )

    def restore(self) -> None:
        """Put back models, optimizers and all that a batch changes."""
        state = self._state
        if self._own is not None and self._own.get("callbacks") is not None:
            state = {**state, "callbacks": {**state.get("callbacks", {}), **self._own["callbacks"]}}
        restore_run(self._run, state)
        if self._own is not None:
            restore_collected(self._run, self._own)
        if self._continuation is not None and self._continuation["stop_requested"]:
            self._run.context.set_stop_requested(True)

    def restore_random_states(self) -> None:
        """Put back the random states; last, since what comes before may draw."""
        if self._own is not None:
            restore_random_states(self._run, self._own)

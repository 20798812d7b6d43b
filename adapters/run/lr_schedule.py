"""When learning rate schedulers step."""

from __future__ import annotations

from typing import Any

from det_compat.pytorch.context.steering import Steering
from det_compat.pytorch.lr_scheduler import stepping_of


def step_lr_schedulers(steering: Steering, batch_idx: int, epoch_len: int) -> None:
    """Step what is due after batch ``batch_idx``, as Determined 0.38.1 does.

    Nothing steps on batches that only accumulate gradients; what became due on them is caught up on
    the batch that steps the optimizers. ``frequency`` of STEP_EVERY_OPTIMIZER_STEP counts batches.
    """
    schedulers = steering.context.lr_schedulers
    if not schedulers or not steering.steps_on_this_batch():
        return
    for scheduler in schedulers:
        for _ in range(_steps_due(scheduler, batch_idx, epoch_len, steering.aggregation_frequency)):
            scheduler.step()


def _steps_due(scheduler: Any, batch_idx: int, epoch_len: int, aggregation: int) -> int:
    _, step_mode, frequency = stepping_of(scheduler)
    mode = step_mode.name
    if mode == "STEP_EVERY_BATCH":
        return _multiples(batch_idx + 1 - aggregation, batch_idx + 1, frequency)
    if mode == "STEP_EVERY_OPTIMIZER_STEP":
        return _multiples(batch_idx, batch_idx + 1, frequency)
    if mode == "STEP_EVERY_EPOCH":
        epochs_done = batch_idx // epoch_len
        epochs_done_next = (batch_idx + aggregation) // epoch_len
        return _multiples(epochs_done, epochs_done_next, frequency)
    return 0


def _multiples(above: int, up_to: int, of: int) -> int:
    """How many multiples of ``of`` are greater than ``above`` and not greater than ``up_to``."""
    return up_to // of - above // of

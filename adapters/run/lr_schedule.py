"""When learning rate schedulers step."""

from __future__ import annotations

from typing import Any

from det_compat.pytorch.context.trial_context import PyTorchTrialContext


def step_lr_schedulers(context: PyTorchTrialContext, batch_idx: int, epoch_len: int) -> None:
    """Step what is due after batch ``batch_idx``, as Determined 0.38.1 does.

    Nothing steps on batches that only accumulate gradients; what became due on them is caught up on
    the batch that steps the optimizers. ``frequency`` of STEP_EVERY_OPTIMIZER_STEP counts batches.
    """
    if not context.lr_schedulers or not context._should_communicate_and_update():
        return
    for scheduler in context.lr_schedulers:
        for _ in range(_steps_due(scheduler, batch_idx, epoch_len, context._aggregation_frequency)):
            scheduler.step()


def _steps_due(scheduler: Any, batch_idx: int, epoch_len: int, aggregation: int) -> int:
    mode, frequency = scheduler._step_mode.name, scheduler._frequency
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

"""PEDL's way to say when a scheduler steps."""

from __future__ import annotations

from typing import Any

from det_compat import pytorch


class LRScheduler(pytorch.LRScheduler):
    """A scheduler that is stepped after every batch, after every epoch, or by the trial itself.

    Raises:
        ValueError: both are asked for.
    """

    def __init__(
        self, scheduler: Any, step_every_batch: bool = False, step_every_epoch: bool = False
    ) -> None:
        modes = pytorch.LRScheduler.StepMode
        if step_every_batch and step_every_epoch:
            raise ValueError(
                "pedl's LRScheduler steps every batch or every epoch, got step_every_batch=True "
                "and step_every_epoch=True; neither means that the trial steps it"
            )
        mode = modes.STEP_EVERY_BATCH if step_every_batch else modes.MANUAL_STEP
        super().__init__(scheduler, modes.STEP_EVERY_EPOCH if step_every_epoch else mode)

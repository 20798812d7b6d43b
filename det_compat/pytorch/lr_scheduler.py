"""Learning rate schedulers that the trainer steps."""

from __future__ import annotations

import enum
import numbers
from typing import Any

from det_compat.pytorch.early_step_mode import takes_early_keywords


class LRScheduler:
    """A scheduler and when the trainer is to step it, as in Determined 0.38.1.

    ``scheduler`` is torch's or anything with ``step``, ``get_last_lr``, ``state_dict`` and
    ``load_state_dict``. ``frequency`` counts in the units of ``step_mode``.

    Raises:
        TypeError: ``step_mode`` is no StepMode or ``frequency`` no number.
        ValueError: ``frequency`` is 0.
    """

    class StepMode(enum.Enum):
        """What the trainer steps a scheduler after; MANUAL_STEP leaves it to the trial."""

        STEP_EVERY_EPOCH = 1
        STEP_EVERY_BATCH = 2
        MANUAL_STEP = 3
        STEP_EVERY_OPTIMIZER_STEP = 4

    @takes_early_keywords
    def __init__(self, scheduler: Any, step_mode: StepMode, frequency: int = 1) -> None:
        self._scheduler = scheduler
        self._step_mode = as_step_mode(step_mode)
        if self._step_mode is not LRScheduler.StepMode.MANUAL_STEP:
            _check_frequency(frequency)
        self._frequency = frequency

    def step(self, *args: Any, **kwargs: Any) -> None:
        """Step the scheduler."""
        self._scheduler.step(*args, **kwargs)

    def get_last_lr(self) -> list[Any]:
        """The learning rate of each parameter group."""
        last_lr: list[Any] = self._scheduler.get_last_lr()
        return last_lr

    def state_dict(self) -> dict[Any, Any]:
        """The scheduler's state."""
        state: dict[Any, Any] = self._scheduler.state_dict()
        return state

    def load_state_dict(self, state_dict: dict[Any, Any]) -> None:
        """Take back what ``state_dict`` returned."""
        self._scheduler.load_state_dict(state_dict)


def as_step_mode(value: Any) -> LRScheduler.StepMode:
    """``value``, or the member with the name of ``value`` where that is the real determined's.

    Raises:
        TypeError: it is neither.
    """
    if isinstance(value, enum.Enum) and value.name in LRScheduler.StepMode.__members__:
        return LRScheduler.StepMode[value.name]
    names = ", ".join(LRScheduler.StepMode.__members__)
    raise TypeError(
        f"step_mode must be a member of LRScheduler.StepMode ({names}), "
        f"got {type(value).__name__} {value!r}"
    )


def _check_frequency(frequency: Any) -> None:
    if not isinstance(frequency, numbers.Real):
        raise TypeError(f"frequency must be an int, got {type(frequency).__name__} {frequency!r}")
    if frequency == 0:
        raise ValueError("frequency must be at least 1, got 0: use MANUAL_STEP to step yourself")

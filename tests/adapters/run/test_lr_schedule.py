from __future__ import annotations

from typing import Any

import pytest

from det_compat.adapters.run.lr_schedule import step_lr_schedulers
from det_compat.pytorch import LRScheduler
from det_compat.pytorch.context.steering import Steering

Mode = LRScheduler.StepMode
EPOCH_LEN = 4


class Scheduler:
    """Counts its steps."""

    def __init__(self) -> None:
        self.steps = 0

    def step(self) -> None:
        self.steps += 1


class Context:
    """What stepping asks of a context."""

    def __init__(self, scheduler: Any, aggregation: int) -> None:
        self.lr_schedulers = [scheduler]
        self._aggregation_frequency = aggregation
        self.batch = 0

    def _should_communicate_and_update(self) -> bool:
        return (self.batch + 1) % self._aggregation_frequency == 0


def steps(mode: Mode, frequency: int, aggregation: int, batches: int = 12) -> list[int]:
    """How often a scheduler is stepped after each batch."""
    scheduler = Scheduler()
    context: Any = Context(LRScheduler(scheduler, mode, frequency), aggregation)
    counts = []
    for context.batch in range(batches):
        before = scheduler.steps
        step_lr_schedulers(Steering(context), context.batch, EPOCH_LEN)
        counts.append(scheduler.steps - before)
    return counts


@pytest.mark.parametrize(
    ("mode", "frequency", "aggregation", "expected"),
    [
        (Mode.STEP_EVERY_BATCH, 1, 1, [1] * 12),
        (Mode.STEP_EVERY_BATCH, 3, 1, [0, 0, 1] * 4),
        (Mode.STEP_EVERY_BATCH, 1, 3, [0, 0, 3] * 4),
        (Mode.STEP_EVERY_BATCH, 2, 3, [0, 0, 1, 0, 0, 2] * 2),
        (Mode.STEP_EVERY_OPTIMIZER_STEP, 1, 1, [1] * 12),
        (Mode.STEP_EVERY_OPTIMIZER_STEP, 1, 3, [0, 0, 1] * 4),
        # frequency counts batches here, as in Determined 0.38.1
        (Mode.STEP_EVERY_OPTIMIZER_STEP, 2, 3, [0, 0, 0, 0, 0, 1] * 2),
        (Mode.STEP_EVERY_EPOCH, 1, 1, [0, 0, 0, 1] * 3),
        (Mode.STEP_EVERY_EPOCH, 2, 1, [0] * 7 + [1] + [0] * 4),
        (Mode.STEP_EVERY_EPOCH, 1, 2, [0, 0, 0, 1] * 3),
        (Mode.MANUAL_STEP, 1, 1, [0] * 12),
    ],
)
def test_steps_after_each_batch(
    mode: Mode, frequency: int, aggregation: int, expected: list[int]
) -> None:
    assert steps(mode, frequency, aggregation) == expected

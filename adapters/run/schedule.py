"""What is due after a batch."""

import enum
import functools
from dataclasses import dataclass

from det_compat.pytorch.train_unit import Epoch, TrainUnit


class Due(enum.Enum):
    """What can be due, in the order in which Determined 0.38.1 does it."""

    LENGTH = "length"
    VALIDATION = "validation"
    CHECKPOINT = "checkpoint"
    REPORT = "report"


@dataclass(frozen=True)
class Schedule:
    """The periods of a run, and its length."""

    max_length: TrainUnit
    validation: TrainUnit
    checkpoint: TrainUnit
    report: TrainUnit
    test_mode: bool = False

    def due(self, batches: int, epochs: int, is_epoch_end: bool) -> list[Due]:
        """What is due after ``batches`` batches, in epoch number ``epochs`` (both from 1)."""
        return [
            due
            for due, unit in self._units
            if _is_due(unit, batches, epochs, is_epoch_end)
            or (due is Due.LENGTH and self.test_mode)
        ]

    def nothing_before(self, batches: int, epoch_len: int) -> int:
        """The number of batches, above ``batches``, before which nothing is due."""
        if self.test_mode:
            return batches + 1
        return min(_earliest(unit, batches, epoch_len) for _, unit in self._units)

    @functools.cached_property
    def _units(self) -> list[tuple[Due, TrainUnit]]:
        return [
            (Due.LENGTH, self.max_length),
            (Due.VALIDATION, self.validation),
            (Due.CHECKPOINT, self.checkpoint),
            (Due.REPORT, self.report),
        ]

    def is_over(self, batches: int, epochs: int) -> bool:
        """Whether that many batches and whole epochs are the whole run."""
        if self.test_mode:
            return batches >= 1
        return self.progress(batches, epochs) >= 1

    def progress(self, batches: int, epochs: int) -> float:
        """Share of the run that is done."""
        done = epochs if isinstance(self.max_length, Epoch) else batches
        length = self.max_length.value
        assert isinstance(length, int)
        return done / length if length > 0 else 1.0


def _is_due(unit: TrainUnit, batches: int, epochs: int, is_epoch_end: bool) -> bool:
    if isinstance(unit, Epoch):
        return is_epoch_end and unit.should_stop(epochs)
    return unit.should_stop(batches)


def _earliest(unit: TrainUnit, batches: int, epoch_len: int) -> int:
    period = epoch_len if isinstance(unit, Epoch) else unit.value
    if not isinstance(period, int) or period < 1:
        return batches + 1
    return (batches // period + 1) * period

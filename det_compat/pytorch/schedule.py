"""What is due after a batch."""

import enum
from collections.abc import Mapping
from dataclasses import dataclass

from det_compat.config.lengths import Period, Unit
from det_compat.pytorch.train_unit import Batch, Epoch, TrainUnit


class Due(enum.Enum):
    """What can be due, in the order in which Determined 0.38.1 does it.

    The values are the names that the arguments of ``Trainer.fit`` have for it.
    """

    LENGTH = "max_length"
    VALIDATION = "validation_period"
    CHECKPOINT = "checkpoint_period"
    REPORT = "reporting_period"


@dataclass(frozen=True)
class Schedule:
    """The length of a run and its periods: a unit for each member of Due, in their order.

    In test mode the run is over after a batch.
    """

    units: Mapping[Due, TrainUnit]
    test_mode: bool = False

    def due(self, batches: int, epoch_len: int) -> list[Due]:
        """What is due after ``batches`` batches, of which an epoch has ``epoch_len``."""
        return [
            due
            for due, unit in self.units.items()
            if is_due(unit, batches, epoch_len) or (due is Due.LENGTH and self.test_mode)
        ]

    def nothing_before(self, batches: int, epoch_len: int) -> int:
        """The number of batches, above ``batches``, before which nothing is due."""
        if self.test_mode:
            return batches + 1
        return min(_earliest(unit, batches, epoch_len) for unit in self.units.values())

    def is_over(self, batches: int, epochs: int) -> bool:
        """Whether that many batches and whole epochs are the whole run."""
        if self.test_mode:
            return batches >= 1
        return self.progress(batches, epochs) >= 1

    def progress(self, batches: int, epochs: int) -> float:
        """The share of the run that is done."""
        length = self.units[Due.LENGTH]
        done = epochs if isinstance(length, Epoch) else batches
        assert isinstance(length.value, int)
        return done / length.value if length.value > 0 else 1.0


def is_due(unit: TrainUnit, batches: int, epoch_len: int) -> bool:
    """Whether ``unit`` is due after ``batches`` batches, of which an epoch has ``epoch_len``."""
    if not isinstance(unit, Epoch):
        return unit.should_stop(batches)
    epochs, rest = divmod(batches, epoch_len)
    return rest == 0 and unit.should_stop(epochs)


def train_unit(period: Period) -> TrainUnit:
    """A period of an experiment config as ``Trainer.fit`` takes it."""
    return Epoch(period.n) if period.unit is Unit.EPOCHS else Batch(period.n)


def _earliest(unit: TrainUnit, batches: int, epoch_len: int) -> int:
    period = epoch_len if isinstance(unit, Epoch) else unit.value
    if not isinstance(period, int) or period < 1:
        return batches + 1
    return (batches // period + 1) * period

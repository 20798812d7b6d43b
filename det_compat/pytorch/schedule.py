"""What is due after a batch."""

import enum
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace

from det_compat.config.lengths import Length, Period, Unit
from det_compat.errors import InvalidExperimentException
from det_compat.pytorch.train_unit import Batch, Epoch, TrainUnit

#: What else helps where the length of an epoch is needed, and nothing says it.
UNSIZED_ADVICE = (
    "count in batches, or give the training loader a len(): it does not say how many batches an "
    "epoch has"
)


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

    def without_epochs(
        self, records_per_epoch: int | None, global_batch_size: int | None
    ) -> "Schedule":
        """This schedule for data of unknown length, where ``in_batches`` counts epochs."""
        if self.test_mode:
            return self
        counted = {
            due: in_batches(unit, due.value, records_per_epoch, global_batch_size)
            for due, unit in self.units.items()
        }
        return replace(self, units=counted)


def is_due(unit: TrainUnit, batches: int, epoch_len: int) -> bool:
    """Whether ``unit`` is due after ``batches`` batches, of which an epoch has ``epoch_len``."""
    if not isinstance(unit, Epoch):
        return unit.should_stop(batches)
    epochs, rest = divmod(batches, epoch_len)
    return rest == 0 and unit.should_stop(epochs)


def train_unit(period: Period) -> TrainUnit:
    """A period of an experiment config as ``Trainer.fit`` takes it."""
    return Epoch(period.n) if period.unit is Unit.EPOCHS else Batch(period.n)


def in_batches(
    unit: TrainUnit, name: str, records_per_epoch: int | None, global_batch_size: int | None
) -> TrainUnit:
    """``unit`` for data of unknown length, whose epochs the config may count by records.

    Determined 0.38.1 takes such an epoch to be endless.

    Args:
        unit: epochs or batches; batches stay as they are.
        name: what the unit is for, for the message.
        records_per_epoch: records in an epoch, as the config says.
        global_batch_size: records in a batch over all processes.

    Raises:
        InvalidExperimentException: epochs cannot be counted.
    """
    if not isinstance(unit, Epoch):
        return unit
    try:
        if not isinstance(unit.value, int):
            raise ValueError(f"{unit!r} cannot be counted in batches: list batches, Batch([...])")
        if not 0 < unit.value < sys.maxsize:
            return unit
        length = Length(unit.value, Unit.EPOCHS)
        return Batch(length.batches(global_batch_size, records_per_epoch=records_per_epoch))
    except ValueError as error:
        raise InvalidExperimentException(f"{name}: {error}; or {UNSIZED_ADVICE}") from error


def _earliest(unit: TrainUnit, batches: int, epoch_len: int) -> int:
    period = epoch_len if isinstance(unit, Epoch) else unit.value
    if not isinstance(period, int) or period < 1:
        return batches + 1
    return (batches // period + 1) * period

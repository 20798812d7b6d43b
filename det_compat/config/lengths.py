"""Lengths of training, in batches, records or epochs."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Unit(Enum):
    """What a length counts. A script that trains by itself counts what it likes: ``CUSTOM``."""

    BATCHES = "batches"
    RECORDS = "records"
    EPOCHS = "epochs"
    CUSTOM = "custom"


_SINGULAR = {Unit.BATCHES: "batch", Unit.RECORDS: "record", Unit.EPOCHS: "epoch"}


@dataclass(frozen=True)
class Period:
    """Every ``n`` batches or epochs, as Determined 0.38.1's trainer takes it.

    ``unit`` is ``Unit.BATCHES`` or ``Unit.EPOCHS``, for ``det_compat.pytorch.Batch(n)`` or
    ``Epoch(n)``; ``n`` is ``sys.maxsize`` for never.
    """

    unit: Unit
    n: int

    @property
    def is_never(self) -> bool:
        """Whether this never comes."""
        return self.n >= sys.maxsize


@dataclass(frozen=True)
class Length:
    """``value`` of ``unit``."""

    value: int
    unit: Unit

    def __str__(self) -> str:
        if self.unit is Unit.CUSTOM:
            return f"{self.value} of the script's own units"
        return f"{self.value} {_SINGULAR[self.unit] if self.value == 1 else self.unit.value}"

    def period(self, global_batch_size: int | None = None) -> Period:
        """This length as the trainer counts it: records become batches.

        As in Determined 0.38.1, 0 is never, a part of a batch is dropped, and less than one batch
        is one.

        Raises:
            ValueError: records without a batch size, or a unit that only the script knows.
        """
        if self.unit is Unit.CUSTOM:
            raise ValueError(
                f"the length {self.value} has no unit: write {{batches: {self.value}}} or "
                f"{{epochs: {self.value}}}"
            )
        unit = Unit.EPOCHS if self.unit is Unit.EPOCHS else Unit.BATCHES
        if self.value < 1:
            return Period(unit, sys.maxsize)
        if self.unit is Unit.RECORDS:
            return Period(unit, _batches(self.value, global_batch_size, str(self)))
        return Period(unit, self.value)

    def batches(
        self,
        global_batch_size: int | None = None,
        *,
        epoch_batches: int | None = None,
        records_per_epoch: int | None = None,
    ) -> int:
        """This length in batches.

        Args:
            global_batch_size: records in a batch, over all processes.
            epoch_batches: batches in an epoch of the data loader; it goes before
                ``records_per_epoch``, as in ``PyTorchTrial``.
            records_per_epoch: records in an epoch, as the config says.

        Raises:
            ValueError: what the conversion needs is not there.
        """
        period = self.period(global_batch_size)
        if period.is_never or period.unit is Unit.BATCHES:
            return 0 if period.is_never else period.n
        if epoch_batches:
            return period.n * epoch_batches
        if not records_per_epoch:
            raise ValueError(
                f"{self} cannot be counted in batches: set records_per_epoch in the config"
            )
        return _batches(period.n * records_per_epoch, global_batch_size, str(self))


def _batches(records: int, global_batch_size: int | None, length: str) -> int:
    if not global_batch_size or global_batch_size < 1:
        raise ValueError(
            f"{length} cannot be counted in batches: set the hyperparameter global_batch_size"
        )
    return max(records // global_batch_size, 1)


def epochs_in(batches: int, global_batch_size: int | None, records_per_epoch: int | None) -> int:
    """Epochs of ``records_per_epoch`` that are over after ``batches``, as lengths count them."""
    if not batches or not global_batch_size or not records_per_epoch:
        return 0
    return ((batches + 1) * global_batch_size - 1) // records_per_epoch


NEVER = Length(0, Unit.BATCHES)


def parse_length(value: Any, bare: Unit = Unit.BATCHES, factor: int = 1) -> Length:
    """A length as a validated config has it: ``{unit: n}``, or a bare ``n`` of ``factor`` each."""
    if isinstance(value, Mapping):
        ((unit, number),) = value.items()
        return Length(int(number), Unit(unit))
    return Length(int(value) * factor, bare)

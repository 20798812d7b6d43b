from __future__ import annotations

import sys

import pytest

from det_compat.config.lengths import Length, Period, Unit, parse_length
from det_compat.pytorch import Batch, Epoch, TrainUnit

BATCHES, RECORDS, EPOCHS = Unit.BATCHES, Unit.RECORDS, Unit.EPOCHS


@pytest.mark.parametrize(
    ("length", "period"),
    [
        (Length(5, BATCHES), Period(BATCHES, 5)),
        (Length(0, BATCHES), Period(BATCHES, sys.maxsize)),
        (Length(2, EPOCHS), Period(EPOCHS, 2)),
        (Length(0, EPOCHS), Period(EPOCHS, sys.maxsize)),
        (Length(100, RECORDS), Period(BATCHES, 3)),
        (Length(31, RECORDS), Period(BATCHES, 1)),
        (Length(0, RECORDS), Period(BATCHES, sys.maxsize)),
    ],
)
def test_periods_are_those_of_the_real_determined(length: Length, period: Period) -> None:
    assert length.period(global_batch_size=32) == period
    real = pytest.importorskip("determined.pytorch")
    unit = real.TrainUnit._from_values(**{length.unit.value: length.value}, global_batch_size=32)
    if length.unit is not RECORDS or length.value:
        assert (type(unit).__name__, unit.value) == (
            "Epoch" if period.unit is EPOCHS else "Batch",
            period.n,
        )
    else:
        # Determined divides its largest number by the batch size, which is never too
        assert unit.value > 10**15 and period.is_never


def test_periods_map_to_train_units() -> None:
    units: dict[Unit, type[TrainUnit]] = {BATCHES: Batch, EPOCHS: Epoch}
    period = Length(3, EPOCHS).period()
    assert units[period.unit](period.n) == Epoch(3)


def test_lengths_in_batches() -> None:
    assert Length(7, BATCHES).batches() == 7
    assert Length(100, RECORDS).batches(32) == 3
    assert Length(2, EPOCHS).batches(epoch_batches=10, records_per_epoch=999) == 20
    assert Length(2, EPOCHS).batches(32, records_per_epoch=100) == 6
    assert Length(1, EPOCHS).batches(32, records_per_epoch=10) == 1


@pytest.mark.parametrize(
    ("length", "says"),
    [
        (Length(3, EPOCHS), "records_per_epoch"),
        (Length(3, RECORDS), "global_batch_size"),
        (Length(3, Unit.CUSTOM), "{batches: 3}"),
    ],
)
def test_what_cannot_be_counted_says_what_to_set(length: Length, says: str) -> None:
    with pytest.raises(ValueError, match=says):
        length.batches()


def test_parsing() -> None:
    assert parse_length({"epochs": 3.0}) == Length(3, EPOCHS)
    assert parse_length(5, factor=100) == Length(500, BATCHES)
    assert str(parse_length(5, Unit.CUSTOM)) == "5 of the script's own units"

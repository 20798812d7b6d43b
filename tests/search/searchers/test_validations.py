from __future__ import annotations

import pytest

from det_compat.config.lengths import Length, Unit
from det_compat.errors import InvalidExperimentException
from det_compat.pytorch.train_unit import Batch, Epoch, TrainUnit
from det_compat.search.searchers.validations import RungsToo


def _due(period: TrainUnit, epoch: int | None, records: int | None = None) -> list[int]:
    rungs = [Length(5, Unit.BATCHES), Length(1, Unit.EPOCHS)]
    found = RungsToo(period, rungs[: 1 if epoch == records else 2], 4, lambda: epoch, records)
    return [batches for batches in range(1, 13) if batches in found]


def test_its_own_period_and_the_rungs() -> None:
    assert _due(Batch(6), 8) == [5, 6, 8, 12]
    assert _due(Epoch(1), 10) == [5, 10]


def test_epochs_of_unknown_length_are_counted_by_records() -> None:
    assert _due(Epoch(2), None, 13) == [3, 5, 6, 12]
    with pytest.raises(InvalidExperimentException, match="1 epoch cannot be counted in batches"):
        _due(Epoch(1), None)

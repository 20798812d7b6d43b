from __future__ import annotations

import sys

import pytest

from det_compat.pytorch import Batch, Epoch, TrainUnit
from det_compat.pytorch.schedule import Due, Schedule

NEVER = Batch(sys.maxsize)
EPOCH_LEN = 4


def due(schedule: Schedule, batches: int) -> list[list[Due]]:
    """What is due after each of so many batches."""
    return [schedule.due(done, EPOCH_LEN) for done in range(1, batches + 1)]


def schedule(
    length: TrainUnit = NEVER,
    validation: TrainUnit = NEVER,
    checkpoint: TrainUnit = NEVER,
    report: TrainUnit = NEVER,
    test_mode: bool = False,
) -> Schedule:
    units = dict(zip(Due, (length, validation, checkpoint, report), strict=True))
    return Schedule(units, test_mode)


@pytest.mark.parametrize(
    ("unit", "batches"),
    [
        (Batch(3), [3, 6]),
        (Batch(1), [1, 2, 3, 4, 5, 6, 7, 8]),
        (Batch([1, 5, 7]), [1, 5, 7]),
        (Epoch(1), [4, 8]),
        (Epoch(2), [8]),
        (Epoch([1]), [4]),
        (NEVER, []),
    ],
)
def test_when_a_unit_is_due(unit: TrainUnit, batches: list[int]) -> None:
    found = due(schedule(validation=unit), 8)
    assert [done for done, what in enumerate(found, 1) if Due.VALIDATION in what] == batches


def test_what_is_due_comes_in_determineds_order() -> None:
    every = Batch(1)
    assert schedule(every, every, every, every).due(1, EPOCH_LEN) == [
        Due.LENGTH,
        Due.VALIDATION,
        Due.CHECKPOINT,
        Due.REPORT,
    ]


@pytest.mark.parametrize(
    ("length", "batches", "epochs", "progress"),
    [(Batch(8), 4, 1, 0.5), (Epoch(4), 4, 1, 0.25), (Epoch(1), 4, 1, 1.0), (Batch(8), 9, 2, 1.125)],
)
def test_progress(length: TrainUnit, batches: int, epochs: int, progress: float) -> None:
    assert schedule(length).progress(batches, epochs) == progress
    assert schedule(length).is_over(batches, epochs) == (progress >= 1)


def test_a_length_of_zero_is_over_at_once() -> None:
    assert schedule(Batch(0)).is_over(0, 0)


def test_test_mode_ends_after_one_batch() -> None:
    short = schedule(Epoch(3), test_mode=True)
    assert not short.is_over(0, 0)
    assert short.is_over(1, 0)
    assert short.due(1, EPOCH_LEN) == [Due.LENGTH]


@pytest.mark.parametrize(
    ("unit", "asked"),
    [
        (Batch(3), 4),
        (Batch(1), 12),
        (Batch(0), 12),
        (Batch([1, 5, 7]), 12),
        (Epoch(1), 3),
        (Epoch(2), 3),
        (Epoch([1]), 3),
        (NEVER, 0),
    ],
)
def test_nothing_is_due_before_the_next_batch_to_ask_at(unit: TrainUnit, asked: int) -> None:
    found = schedule(report=unit)
    asked_at = [found.nothing_before(0, EPOCH_LEN)]
    while asked_at[-1] < 12:
        asked_at.append(found.nothing_before(asked_at[-1], EPOCH_LEN))
    assert {done for done, what in enumerate(due(found, 12), 1) if what} <= {*asked_at}
    assert len([batches for batches in asked_at if batches <= 12]) == asked


def test_a_test_run_is_asked_after_its_first_batch() -> None:
    assert schedule(test_mode=True).nothing_before(0, EPOCH_LEN) == 1

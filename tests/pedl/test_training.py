"""How long an experiment config says to train."""

from __future__ import annotations

from typing import Any

import pytest

from det_compat.errors import InvalidExperimentException
from det_compat.pedl.training import lengths_of
from det_compat.pytorch import Batch, Epoch


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        ({"max_steps": 3}, Batch(300)),
        ({"max_length": 3}, Batch(300)),
        ({"max_length": {"batches": 7}}, Batch(7)),
        ({"max_length": {"epochs": 2}}, Epoch(2)),
        ({"max_length": {"records": 90}}, Batch(5)),
        ({"max_length": {"records": 1}}, Batch(1)),
    ],
)
def test_lengths_are_in_steps_or_in_what_they_say(length: Any, expected: Any) -> None:
    training = lengths_of({"searcher": length}, {"batch_size": 8}, 2)["max_length"]
    assert (type(training), training.value) == (type(expected), expected.value)


def test_periods_of_nothing_are_never() -> None:
    conf = {
        "searcher": {"name": "single", "max_steps": 1},
        "batches_per_step": 10,
        "min_validation_period": {"batches": 0},
        "min_checkpoint_period": 4,
    }
    found = lengths_of(conf, {}, 1)
    assert found["validation_period"] is None
    assert found["checkpoint_period"] is not None
    assert (found["checkpoint_period"].value, found["reporting_period"].value) == (40, 10)
    assert lengths_of({"searcher": {"max_steps": 1}}, {}, 1)["checkpoint_period"] is None


@pytest.mark.parametrize(
    ("conf", "message"),
    [
        ({}, r"does not say how long to train: set searcher.max_steps \(1 step is 100"),
        ({"searcher": {"name": "random", "max_steps": 1}}, "'random', and one trial is trained"),
        ({"searcher": {"max_length": "long"}}, "searcher.max_length must be a number of steps"),
        ({"searcher": {"max_length": {"weeks": 1}}}, "must be a number of steps"),
        ({"searcher": {"max_length": {"records": 1}}}, "takes the hyperparameter batch_size; it"),
        ({"searcher": {"max_steps": 1}, "min_validation_period": -1}, "min_validation_period mus"),
    ],
)
def test_lengths_that_make_no_sense_are_refused(conf: Any, message: str) -> None:
    with pytest.raises(InvalidExperimentException, match=message):
        lengths_of(conf, {}, 1)

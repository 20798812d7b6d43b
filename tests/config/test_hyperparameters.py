from __future__ import annotations

from typing import Any

import pytest

from det_compat.config import ConfigError
from det_compat.config.hyperparameters import Categorical, Double, Int, Log, batch_size
from tests.config import schedules
from tests.config.samples import parsed


def test_constants_are_what_the_trial_gets() -> None:
    hparams = parsed(
        hyperparameters={
            "lr": 1e-4,
            "model": {"dims": [1, 2], "act": {"type": "const", "val": {"type": "relu"}}},
            "transforms": [{"type": "Resize", "size": 2}],
            "none": None,
        }
    ).hyperparameters
    assert hparams.constants() == {
        "lr": 1e-4,
        "model": {"dims": [1, 2], "act": {"type": "relu"}},
        "transforms": [{"type": "Resize", "size": 2}],
        "none": None,
    }
    assert not hparams.ranges()


def test_ranges_by_dotted_name() -> None:
    hparams = parsed(
        hyperparameters={
            "a": {"type": "int", "minval": 1, "maxval": 8.0, "count": 3},
            "b": {"c": {"type": "double", "minval": 0, "maxval": 1}},
            "d": {"type": "log", "minval": -5.0, "maxval": 1, "base": 10},
            "e": {"type": "categorical", "vals": [{"f": 1}, [2], None, True]},
            "g": 1,
        }
    ).hyperparameters
    assert hparams.ranges() == {
        "a": Int(1, 8, 3),
        "b.c": Double(0.0, 1.0),
        "d": Log(-5.0, 1.0, 10.0),
        "e": Categorical(({"f": 1}, [2], None, True)),
    }
    assert hparams.ranges() and hparams.constants() == {"b": {}, "g": 1}


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"type": "int", "minval": 0.5, "maxval": 2}, r"minval: found 0\.5, expected a whole"),
        ({"type": "int", "minval": 2}, "maxval: found nothing, expected a whole number"),
        ({"type": "double", "minval": "0", "maxval": 1}, "expected a number"),
        ({"type": "double", "minval": 1, "maxval": 1}, "expected minval below maxval"),
        ({"type": "log", "minval": 1, "maxval": 2}, "base: found nothing"),
        ({"type": "log", "minval": 1, "maxval": 2, "base": 0}, "expected a number above 0"),
        ({"type": "categorical", "vals": []}, "found an empty list, expected a list of at least"),
        ({"type": "categorical", "vals": "ab"}, "found 'ab', expected a list"),
        ({"type": "int", "minval": 1, "maxval": 2, "vals": [1]}, "expected only minval, maxval"),
        ({"type": "int", "minval": 1, "maxval": 2, "count": 0}, "expected a whole number, 1"),
        ({"type": "adam", "lr": 1}, r"for a constant|For a constant mapping write"),
        ({"type": {"a": 1}}, "found a mapping of a, expected one of const, int"),
        ({"type": "const"}, "val: found nothing"),
    ],
)
def test_what_is_wrong(value: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says) as raised:
        parsed(hyperparameters={"deep": {"x": value}})
    assert raised.value.problems[0].key.startswith("hyperparameters.deep.x")


def test_grid_search_needs_counts() -> None:
    grid = {"name": "grid", "metric": "loss"}
    with pytest.raises(ConfigError, match="a count: grid search takes so many points"):
        parsed(searcher=grid, hyperparameters={"a": {"type": "int", "minval": 1, "maxval": 2}})
    parsed(searcher=grid, hyperparameters={"a": {"type": "categorical", "vals": [1]}})


def test_batch_sizes() -> None:
    assert batch_size({"global_batch_size": 64}, slots=4) == 64
    assert batch_size({"batch_size": 16}, slots=4) == 64
    assert batch_size({}) is None
    assert batch_size({"global_batch_size": "64"}) is None


def test_records_need_a_batch_size() -> None:
    searcher = {"name": "single", "metric": "loss", "max_length": {"records": 100}}
    with pytest.raises(ConfigError, match=r"searcher\.max_length: found 100 records"):
        parsed(searcher=searcher, entrypoint="m:T")
    config = parsed(searcher=searcher, entrypoint="m:T", hyperparameters={"global_batch_size": 30})
    assert schedules.resolved(config, 1).total_batches == 3

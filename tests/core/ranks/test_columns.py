from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

from det_compat.core.ranks.columns import AsColumns


def sent(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    received: list[dict[str, Any]] = pickle.loads(pickle.dumps(AsColumns(rows)))
    return received


def shown(rows: list[dict[str, Any]]) -> Any:
    return [
        {
            name: (type(value), getattr(value, "dtype", None), np.shape(value), repr(value))
            for name, value in row.items()
        }
        for row in rows
    ]


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [{}],
        [{"a": np.array(0.1, np.float32)}, {"a": np.array(np.nan, np.float32)}],
        [{"a": np.array([1, 2])}, {"a": np.array([3, 4])}],
        [{"a": np.array([1])}, {"a": np.array([3, 4])}],
        [{"a": np.array(1.0)}, {"a": np.array(1)}],
        [{"a": np.float32(1)}, {"a": 2}, {"a": None}, {"a": "no number"}],
        [{"a": np.array(None)}, {"a": np.array({})}],
        [{"a": np.ma.array([1], mask=[True])}] * 2,
        [{"a": 1, "b": 2}, {"b": 3, "a": 4}],
        [{"a": 1}, {"b": 1}],
        [{("no", "text"): np.array(True)}] * 3,
    ],
)
def test_what_arrives_is_what_was_sent(rows: list[dict[str, Any]]) -> None:
    assert shown(sent(rows)) == shown(rows)
    assert [[*row] for row in sent(rows)] == [[*row] for row in rows]


def test_a_number_takes_hardly_more_than_its_bytes() -> None:
    numbers = np.random.default_rng(0).random((100, 1000), dtype=np.float32)
    rows = [{f"metric {i}": np.array(value) for i, value in enumerate(row)} for row in numbers]
    assert len(pickle.dumps(AsColumns(rows))) < 1.5 * numbers.nbytes
    assert sent(rows) == rows


def test_a_rank_may_write_into_what_it_received() -> None:
    first, second = sent([{"a": np.zeros(2)}, {"a": np.ones(2)}])
    first["a"] += 5
    assert second["a"].tolist() == [1, 1]

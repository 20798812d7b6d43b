from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from det_compat.common.check import CheckFailedError
from det_compat.util import metrics


@pytest.fixture
def real() -> Any:
    return pytest.importorskip("determined").util


BATCHES: list[list[dict[str, Any]]] = [
    [{"a": 1, "b": 2.5}, {"a": 2, "b": None}],
    [{"a": np.float32(1)}, {"a": np.float32(2)}],
    [{"a": "text"}, {"a": "other"}],
    [{"a": [1, 2]}, {"a": [3, 4]}],
]


@pytest.mark.parametrize("batches", BATCHES)
@pytest.mark.parametrize("inputs", [None, 8])
def test_averages(real: Any, batches: list[dict[str, Any]], inputs: int | None) -> None:
    assert metrics.make_metrics(inputs, batches) == real.make_metrics(inputs, batches)


def test_lists_and_dicts(real: Any) -> None:
    rows = [{"a": 1}, {"b": 2}, {"a": 2}]
    assert metrics.list_to_dict(rows) == real._list_to_dict(rows)
    columns = {"a": [1, 2], "b": [3, 4]}
    assert metrics.dict_to_list(columns) == real._dict_to_list(columns)


def test_batches_with_different_metrics_are_named() -> None:
    with pytest.raises(CheckFailedError, match="inconsistent training metrics: index: 1"):
        metrics.validate_batch_metrics([{"a": 1, "b": 1}, {"a": 1}])


@pytest.mark.parametrize(
    "value",
    [
        *(1, 1.5, True, float("nan"), "a", None, [1], {}, 1j, torch.tensor(1.0)),
        *(np.array(1), np.array(True), np.array([1]), np.array("a")),
        *(np.int8(1), np.float32(1), np.bool_(True), np.complex64(1j)),
    ],
    ids=repr,
)
def test_numbers(real: Any, value: Any) -> None:
    assert metrics.is_numerical_scalar(value) == real.is_numerical_scalar(value)


def test_a_line_of_timing(real: Any) -> None:
    for duration in (0, 1.23456, 4000.5):
        assert metrics.make_timing_log("trained", duration, 640, 10) == real.make_timing_log(
            "trained", duration, 640, 10
        )

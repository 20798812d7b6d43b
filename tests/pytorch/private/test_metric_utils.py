"""The private functions give what those of Determined 0.38.1 gave."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from det_compat import core, pytorch
from det_compat.pytorch.private import metric_utils


@pytest.fixture
def real() -> Any:
    return pytest.importorskip("determined.pytorch._metric_utils")


COMBINED: list[list[Any]] = [
    [({}, 2), ({}, 2)],
    [({}, 0), ({"a": [1, 2]}, 2), ({"a": [3, 4]}, 2)],
]


@pytest.mark.parametrize("combined", COMBINED)
def test_combining(real: Any, combined: list[Any]) -> None:
    ours = metric_utils.process_combined_metrics_and_batches(combined)
    assert ours == real._process_combined_metrics_and_batches(combined)


def test_averages_over_ranks(real: Any) -> None:
    series = {"a": [[1, 2], [3, 4]], "b": [[np.array(1.0)] * 2, [np.array(2.0)] * 2]}
    ours = metric_utils.average_training_metrics(series, [2, 2])
    theirs = real._average_training_metrics(series, [2, 2])
    assert ours == theirs and type(ours[0]["b"]) is type(theirs[0]["b"])


@pytest.mark.parametrize("name", ["AVG", "SUM", "MIN", "MAX"])
def test_reducing(real: Any, name: str) -> None:
    import determined.pytorch as theirs

    values = np.array([0.25, 0.5, 25.5])
    for weights in (None, [1, 2, 5]):
        assert metric_utils.simple_reduce_metrics(
            pytorch.Reducer[name], values, weights
        ) == theirs._simple_reduce_metrics(theirs.Reducer[name], values, weights)
    batches = [{"a": 1.0, "b": 2.0}, {"a": 3.0, "b": 5.0}]
    reducers = metric_utils.prepare_metrics_reducers(pytorch.Reducer[name], ["a", "b"])
    ranks = core.DummyDistributedContext()
    reduced = metric_utils.reduce_metrics(ranks, batches, ["a", "b"], reducers)
    their_reducers = real._prepare_metrics_reducers(theirs.Reducer[name], ["a", "b"])
    their_ranks = theirs.core.DummyDistributedContext() if hasattr(theirs, "core") else ranks
    assert reduced == real._reduce_metrics(their_ranks, batches, ["a", "b"], their_reducers)


def test_weights_that_do_not_fit() -> None:
    with pytest.raises(RuntimeError, match="not equal: 2 != 1"):
        metric_utils.simple_reduce_metrics(pytorch.Reducer.AVG, np.ones(2), [1])


def test_tensors_become_arrays() -> None:
    metrics = {"a": 1, "b": torch.tensor(2)}
    assert metric_utils.convert_metrics_to_numpy(metrics) == {"a": 1, "b": np.array(2)}


@pytest.mark.parametrize("kind", ["train", "val", "other"])
def test_what_tensorboard_is_given(real: Any, kind: str) -> None:
    class Writer:
        def __init__(self) -> None:
            self.calls: list[Any] = []

        def add_scalar(self, *args: Any) -> None:
            self.calls.append(args)

    ours, theirs = Writer(), Writer()
    metrics = {"loss": 1.0, "val_acc": 2.0, "text": "x", "other": 3}
    batches = [{"loss": 1.0, "list": [1]}, {"loss": 2.0}]
    for given in (None, batches):
        metric_utils.log_tb_metrics(ours, kind, 7, metrics, given)
        real._log_tb_metrics(theirs, kind, 7, metrics, given)
    assert ours.calls == theirs.calls != []

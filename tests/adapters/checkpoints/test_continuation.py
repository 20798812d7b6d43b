from __future__ import annotations

import io

import numpy as np
import pytest
import torch
import torchmetrics

from det_compat.adapters.checkpoints.continuation import reducer_states, restore_reducers
from det_compat.pytorch import MetricReducer
from det_compat.pytorch.context.steering import Steering
from tests.adapters.trials import Linear, built


class Keeps(MetricReducer):
    """State of several kinds, and something that is built with it."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model
        self.fn = lambda values: values
        self.metric = torchmetrics.MeanMetric()
        self.reset()

    def reset(self) -> None:
        self.values: list[float] = []
        self.confusion = np.zeros((2, 2), dtype=np.int64)
        self.metric.reset()

    def update(self, value: float) -> None:
        self.values.append(value)
        self.confusion[0, 1] += 1
        self.metric.update(value)

    def per_slot_reduce(self) -> float:
        return sum(self.values) + float(self.confusion.sum()) + float(self.metric.compute())

    def cross_slot_reduce(self, per_slot_metrics: list[float]) -> float:
        return sum(per_slot_metrics)


class Reduces(Linear):
    def finish(self) -> None:
        self.keeps = self.context.wrap_reducer(Keeps(self.model), name="keeps")
        self.total = self.context.wrap_reducer(sum, name="total")


@pytest.mark.filterwarnings("ignore:The ``compute`` method of metric:UserWarning")
def test_what_was_collected_comes_back() -> None:
    trial = built(Reduces)
    for value in (1.0, 2.5):
        trial.keeps.update(value)
        trial.total.update(value)
    states = reducer_states(Steering(trial.context))
    file = io.BytesIO()
    torch.save(states, file)
    file.seek(0)
    states = torch.load(file, weights_only=True)

    again = built(Reduces)
    restore_reducers(Steering(again.context), states)
    assert again.context.reduce_metrics(for_training=True) == {
        "keeps": 3.5 + 2 + 1.75,
        "total": 3.5,
    }
    assert again.keeps.metric.update_count == 2
    assert again.keeps.model is again.model


def test_no_attribute_that_is_no_data_is_kept() -> None:
    [keeps, total] = reducer_states(Steering(built(Reduces).context))
    assert keeps.keys() == {"values", "confusion", "metric"}
    assert total.keys() == {"values"}

"""Custom reducers and evaluation reducers."""

from __future__ import annotations

import numpy as np
import torch
from determined.pytorch import MetricReducer, PyTorchTrialContext, Reducer

from trials.base import CLASSES, Classifier


class Mean(MetricReducer):
    """The mean of everything that update() got."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.total, self.count = 0.0, 0

    def update(self, values: torch.Tensor) -> None:
        self.total += float(values.sum())
        self.count += len(values)

    def per_slot_reduce(self):
        return self.total, self.count

    def cross_slot_reduce(self, per_slot_metrics):
        totals, counts = zip(*per_slot_metrics, strict=True)
        return sum(totals) / max(sum(counts), 1)


class PerClass(Mean):
    """A dict of several metrics, one of them an array and one a tensor."""

    def reset(self) -> None:
        self.counts = torch.zeros(CLASSES)

    def update(self, values: torch.Tensor) -> None:
        self.counts += torch.bincount(values, minlength=CLASSES)

    def per_slot_reduce(self):
        return self.counts

    def cross_slot_reduce(self, per_slot_metrics):
        counts = torch.stack(list(per_slot_metrics)).sum(0)
        named = {f"class_{i}": float(count) for i, count in enumerate(counts)}
        return {**named, "counts": counts, "share": (counts / counts.sum().clamp(1)).numpy()}


def spread(values: list) -> float:
    return float(np.ptp(values)) if values else -1.0


def first_and_last(values: list) -> dict:
    return {"first": values[0], "last": values[-1], "n": len(values)} if values else {"n": 0}


class Reduced(Classifier):
    """Reducers of every kind."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        super().__init__(context)
        self.mean = context.wrap_reducer(Mean(), name="mean")
        self.per_class = context.wrap_reducer(PerClass())
        self.spread = context.wrap_reducer(spread, name="spread")
        self.ends = context.wrap_reducer(first_and_last, for_training=False)
        self.only_training = context.wrap_reducer(
            Mean(), name="only_training", for_validation=False
        )
        self.only_validation = context.wrap_reducer(
            spread, name="only_validation", for_training=False
        )

    def update(self, batch) -> None:
        x, y = batch
        for reducer in (self.mean, self.only_training):
            reducer.update(x)
        self.per_class.update(y)
        for reducer in (self.spread, self.ends, self.only_validation):
            reducer.update(float(x.mean()))

    def train_batch(self, batch, epoch_idx, batch_idx):
        self.update(batch)
        return super().train_batch(batch, epoch_idx, batch_idx)

    def evaluate_batch(self, batch):
        self.update(batch)
        return super().evaluate_batch(batch)


class NothingButReduced(Reduced):
    """Metrics come from reducers alone."""

    def train_batch(self, batch, epoch_idx, batch_idx):
        super().train_batch(batch, epoch_idx, batch_idx)
        return {}

    def evaluate_batch(self, batch):
        super().evaluate_batch(batch)
        return {}


class LateReducers(Classifier):
    """Reducers are registered while loaders are built."""

    def build_validation_data_loader(self):
        self.late = self.context.wrap_reducer(spread, name="late")
        return super().build_validation_data_loader()

    def train_batch(self, batch, epoch_idx, batch_idx):
        self.late.update(float(batch[0].sum()))
        return super().train_batch(batch, epoch_idx, batch_idx)

    def evaluate_batch(self, batch):
        self.late.update(float(batch[0].sum()))
        return super().evaluate_batch(batch)


class OneReducer(Classifier):
    """One evaluation reducer for all the metrics."""

    def evaluation_reducer(self):
        return Reducer[self.hparam("reducer", "MAX")]


class EachItsReducer(Classifier):
    """A reducer for each metric; metrics of every kind."""

    def evaluation_reducer(self):
        return {
            "avg": Reducer.AVG,
            "sum": Reducer.SUM,
            "max": Reducer.MAX,
            "min": Reducer.MIN,
            "vector": Reducer.AVG,
            "number": Reducer.SUM,
            "array": Reducer.MAX,
        }

    def evaluate_batch(self, batch):
        x, _ = batch
        return {
            "avg": x.mean(),
            "sum": x.sum(),
            "max": x.max().item(),
            "min": np.float64(x.min().item()),
            "vector": x.mean(0),
            "number": len(x),
            "array": x.numpy()[:2],
        }


class WrongReducers(Classifier):
    """The reducers do not match the metrics."""

    def evaluation_reducer(self):
        return {"validation_loss": Reducer.AVG}


class WithoutName(Classifier):
    """A reducer without a name that returns no dict."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        super().__init__(context)
        context.wrap_reducer(spread)

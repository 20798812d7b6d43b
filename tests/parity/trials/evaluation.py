"""The ways to evaluate, and what train_batch may return."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from determined.pytorch import DataLoader, PyTorchTrial, PyTorchTrialContext

from trials.base import Classifier, rows


class FullDataset(PyTorchTrial):
    """evaluate_full_dataset, which the chief alone calls."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        self.context = context
        self.seen = []
        self.model = context.wrap_model(torch.nn.Linear(5, 3))
        self.optimizer = context.wrap_optimizer(
            torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        )

    def build_training_data_loader(self) -> DataLoader:
        return DataLoader(rows(), batch_size=self.context.get_per_slot_batch_size(), shuffle=True)

    def build_validation_data_loader(self) -> DataLoader:
        return DataLoader(rows(11, seed=8), batch_size=4)

    def train_batch(self, batch, epoch_idx, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self.model(x), y)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return loss

    def evaluate_full_dataset(self, data_loader):
        self.seen.append((torch.is_grad_enabled(), self.model.training, len(data_loader)))
        module = getattr(self.model, "module", self.model)
        losses = [F.cross_entropy(module(x), y) for x, y in data_loader]
        return {"loss": torch.stack(losses).mean(), "losses": torch.stack(losses), "text": "ok"}


class FullDatasetReduced(FullDataset):
    """... with a reducer."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        super().__init__(context)
        self.count = context.wrap_reducer(len, name="count")

    def evaluate_full_dataset(self, data_loader):
        self.count.update(1)
        return super().evaluate_full_dataset(data_loader)


class WithBatchIdx(Classifier):
    """evaluate_batch with batch_idx."""

    def evaluate_batch(self, batch, batch_idx):
        self.seen.append((batch_idx, torch.is_grad_enabled(), torch.is_inference_mode_enabled()))
        return {**super().evaluate_batch(batch), "idx": batch_idx}


class WithDefaults(Classifier):
    """evaluate_batch with defaults in another order."""

    def evaluate_batch(self, batch, epoch_idx=0, batch_idx=-7):
        self.seen.append((epoch_idx, batch_idx))
        return {**super().evaluate_batch(batch), "idx": batch_idx}


class ReturnsTensor(Classifier):
    """train_batch returns the loss."""

    def train_batch(self, batch, epoch_idx, batch_idx):
        return super().train_batch(batch, epoch_idx, batch_idx)["loss"]


class TakesKwargs(Classifier):
    """train_batch(batch, **kwargs)."""

    def train_batch(self, batch, **kwargs):
        self.seen.append(sorted(kwargs.items()))
        return super().train_batch(batch, kwargs["epoch_idx"], kwargs["batch_idx"])


class OddMetrics(Classifier):
    """Lists, nested dicts with strings, NaN, None: metrics as they come."""

    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = super().train_batch(batch, epoch_idx, batch_idx)["loss"]
        metrics = {
            "loss": loss,
            "nan": float("nan"),
            "int": batch_idx,
            "bool": batch_idx % 2 == 0,
            "np": np.float32(0.25 * batch_idx),
        }
        extras = {
            "list": [1.0, float(batch_idx)],
            "nested": {"a": 1, "b": {"c": "text"}},
            "text": f"batch {batch_idx}",
            "none": None,
            "vector": batch[0].mean(0),
        }
        return {**metrics, **extras} if self.hparam("extras", True) else metrics

    def evaluate_batch(self, batch):
        return {"nan": float("nan"), "vector": batch[0].mean(0), "list": [1.0, 2.0], "bool": True}


class OddFullMetrics(FullDataset):
    """Metrics of evaluate_full_dataset are reported as they are."""

    def evaluate_full_dataset(self, data_loader):
        return {"list": [1.0, 2.0], "nested": {"a": 1, "b": "text"}, "nan": float("nan"), "n": None}


class ReservedNames(Classifier):
    """The trial itself reports "batches" and "epochs"."""

    def train_batch(self, batch, epoch_idx, batch_idx):
        metrics = super().train_batch(batch, epoch_idx, batch_idx)
        return {**metrics, "batches": 1.5, "epochs": 2.5}

    def evaluate_batch(self, batch):
        return {**super().evaluate_batch(batch), "batches": 3.5, "loss": 4.0}


class NoMetrics(Classifier):
    """Empty dicts."""

    def train_batch(self, batch, epoch_idx, batch_idx):
        super().train_batch(batch, epoch_idx, batch_idx)
        return {}

    def evaluate_batch(self, batch):
        return {}


class OneDict(Classifier):
    """The same dict every batch; metrics from earlier batches; tensors attached to the graph."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        super().__init__(context)
        self.metrics = {}
        self.earlier = torch.tensor(0.0)

    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = super().train_batch(batch, epoch_idx, batch_idx)["loss"]
        self.metrics["loss"] = loss
        self.metrics[f"batch_{batch_idx % 2}"] = batch_idx
        self.metrics.setdefault("batch_1", 0)
        self.metrics["earlier"] = self.earlier
        self.earlier = loss
        return self.metrics


class SharedMemory(Classifier):
    """A metric tensor that the trial changes in place afterwards."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        super().__init__(context)
        self.running = torch.zeros(())

    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = super().train_batch(batch, epoch_idx, batch_idx)["loss"]
        self.running += loss.detach()
        return {"running": self.running, "clone": self.running.clone()}

    def evaluate_batch(self, batch):
        self.running += 1
        return {"running": self.running}


class ChangingNames(Classifier):
    """Training metrics whose names differ from batch to batch."""

    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = super().train_batch(batch, epoch_idx, batch_idx)["loss"]
        return {"loss": loss, "odd": 1.0} if batch_idx % 2 else {"loss": loss}


class ChangingValidationNames(Classifier):
    """Validation metrics whose names differ from batch to batch."""

    def evaluate_batch(self, batch, batch_idx):
        return {f"name_{min(batch_idx, 1)}": 1.0}


class BothEvaluations(Classifier):
    """evaluate_batch and evaluate_full_dataset."""

    def evaluate_full_dataset(self, data_loader):
        return {}


class EmptyValidation(Classifier):
    """A validation loader without a batch."""

    def build_validation_data_loader(self) -> DataLoader:
        return DataLoader(rows(3), batch_size=8, drop_last=True)

"""A run with all that makes resuming hard, and what it leaves behind."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset

from det_compat import core
from det_compat.pytorch import (
    DataLoader,
    LRScheduler,
    MetricReducer,
    PyTorchCallback,
    PyTorchTrial,
    PyTorchTrialContext,
)

ROWS, BATCH, EPOCHS, PERIOD = 44, 4, 3, 4


class Rows(Dataset[Any]):
    """Rows of four features and a target; no random numbers are drawn for them."""

    def __init__(self, count: int = ROWS) -> None:
        generator = torch.Generator().manual_seed(7)
        self.x = torch.randn(count, 4, generator=generator)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.x[index], self.x[index].sum(0, keepdim=True)


class Extremes(MetricReducer):
    """Keeps arrays, numbers and a set; and something that is no data."""

    def __init__(self, owner: Any) -> None:
        self.owner = owner
        self.reset()

    def reset(self) -> None:
        self.arrays: list[np.ndarray[Any, Any]] = []
        self.largest = -np.inf
        self.seen: set[int] = set()

    def update(self, values: torch.Tensor, batch_idx: int) -> None:
        self.arrays.append(values.detach().numpy().copy())
        self.largest = max(self.largest, float(values.max()))
        self.seen.add(batch_idx)

    def per_slot_reduce(self) -> Any:
        return np.concatenate(self.arrays).sum(), self.largest, sorted(self.seen)

    def cross_slot_reduce(self, per_slot_metrics: list[Any]) -> Any:
        return {
            "slots": [list(map(float, np.ravel(part[:2]))) for part in per_slot_metrics],
            "seen": [part[2] for part in per_slot_metrics],
        }


class Counting(PyTorchCallback):
    """A callback whose state is a count, an array and a random draw a batch."""

    def __init__(self) -> None:
        self.epochs = 0
        self.validations: list[float] = []
        self.array = np.zeros(2)
        self.losses: list[float] = []  # each rank's own

    def on_training_epoch_end(self, epoch_idx: int) -> None:
        self.epochs += 1
        self.array += np.random.rand(2)

    def on_validation_end(self, metrics: dict[str, Any]) -> None:
        self.validations.append(float(metrics["val_loss"]))

    def state_dict(self) -> dict[str, Any]:
        return dict(vars(self))

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.__dict__.update(state_dict)


class Subject(PyTorchTrial):
    """Shuffle, dropout, batch norm, aggregation, a schedule, reducers, callbacks, NumPy noise."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        self.context = context
        self.batches: list[Any] = []
        self.counting = Counting()
        model = nn.Sequential(
            nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 1)
        )
        self.model = context.wrap_model(model)
        self.optimizer = context.wrap_optimizer(torch.optim.Adam(self.model.parameters(), lr=0.05))
        self.scheduler = context.wrap_lr_scheduler(
            torch.optim.lr_scheduler.StepLR(self.optimizer, 2, gamma=0.7),
            LRScheduler.StepMode.STEP_EVERY_OPTIMIZER_STEP,
        )
        self.extremes = context.wrap_reducer(Extremes(self), for_validation=False)
        self.sums = context.wrap_reducer(sum, name="sum", for_validation=False)

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        x, y = batch
        noise = float(np.random.randn()) * 0.01 + random.random() * 0.01
        loss = nn.functional.mse_loss(self.model(x + noise), y)
        self.extremes.update(x, batch_idx)
        self.sums.update(float(loss.detach()))
        self.batches.append((batch_idx, epoch_idx, float(loss.detach())))
        self.counting.losses.append(float(loss.detach()))
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss, "lr": self.scheduler.get_last_lr()[0], "note": "text"}

    def evaluate_batch(self, batch: Any) -> dict[str, Any]:
        x, y = batch
        return {"val_loss": nn.functional.mse_loss(self.model(x), y)}

    def loader(self, rows: int, workers: int) -> Any:
        return DataLoader(Rows(rows), batch_size=BATCH, shuffle=True, num_workers=workers)

    def build_training_data_loader(self) -> Any:
        return self.loader(ROWS, self.context.get_hparams().get("workers", 0))

    def build_validation_data_loader(self) -> Any:
        return self.loader(12, 0)

    def build_callbacks(self) -> dict[str, PyTorchCallback]:
        return {"counting": self.counting}


class Reports(core.TrainContext):
    """Keeps what is reported."""


def seed(value: int) -> None:
    random.seed(value)
    np.random.seed(value)
    torch.manual_seed(value)

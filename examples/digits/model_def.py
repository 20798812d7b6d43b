"""A small CNN on scikit-learn's digits (1797 grey images of 8 by 8), written for Determined."""

from __future__ import annotations

from typing import Any

import torch
from determined.pytorch import (
    DataLoader,
    LRScheduler,
    PyTorchCallback,
    PyTorchTrial,
    PyTorchTrialContext,
    TorchData,
)
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import TensorDataset


def build_network(n_filters: int, dropout: float) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, n_filters, 3, padding=1),
        nn.BatchNorm2d(n_filters),
        nn.ReLU(),
        nn.Conv2d(n_filters, 2 * n_filters, 3, padding=1),
        nn.BatchNorm2d(2 * n_filters),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(2 * n_filters * 4 * 4, 10),
    )


def split_digits() -> tuple[TensorDataset, TensorDataset]:
    """1347 digits to train on and 450 to validate on, the same ones every time."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(digits.target)
    train, validation = train_test_split(
        range(len(labels)), test_size=0.25, stratify=digits.target, random_state=0
    )
    return (
        TensorDataset(images[train], labels[train]),
        TensorDataset(images[validation], labels[validation]),
    )


class ResultTable(PyTorchCallback):
    """Keeps one row an epoch and prints them when the training is over, on rank 0."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        self.context = context
        self.train_loss: float | None = None
        self.rows: list[tuple[int, float | None, float, float]] = []

    def on_training_workload_end(
        self, avg_metrics: dict[str, Any], batch_metrics: dict[str, Any]
    ) -> None:
        self.train_loss = float(avg_metrics["loss"])

    def on_validation_end(self, metrics: dict[str, Any]) -> None:
        self.rows.append(
            (
                self.context.current_train_epoch() + 1,
                self.train_loss,
                float(metrics["validation_loss"]),
                float(metrics["accuracy"]),
            )
        )

    def on_trial_shutdown(self) -> None:
        if self.context.distributed.get_rank() != 0 or not self.rows:
            return
        print(f"\n{'epoch':>5}  {'train loss':>10}  {'validation loss':>15}  {'accuracy':>8}")
        for epoch, train_loss, validation_loss, accuracy in self.rows:
            shown = "-" if train_loss is None else f"{train_loss:.4f}"
            print(f"{epoch:>5}  {shown:>10}  {validation_loss:>15.4f}  {accuracy:>8.2%}")
        best = max(self.rows, key=lambda row: row[3])
        print(f"last accuracy: {self.rows[-1][3]:.2%}")
        print(f"best accuracy: {best[3]:.2%} (epoch {best[0]})")


class DigitsTrial(PyTorchTrial):
    def __init__(self, context: PyTorchTrialContext) -> None:
        self.context = context
        self.train_data, self.validation_data = split_digits()

        network = build_network(context.get_hparam("n_filters"), context.get_hparam("dropout"))
        self.model = context.wrap_model(network)
        self.optimizer = context.wrap_optimizer(
            torch.optim.Adam(self.model.parameters(), lr=context.get_hparam("learning_rate"))
        )
        self.lr_scheduler = context.wrap_lr_scheduler(
            torch.optim.lr_scheduler.StepLR(
                self.optimizer, step_size=context.get_hparam("lr_step_epochs"), gamma=0.3
            ),
            step_mode=LRScheduler.StepMode.STEP_EVERY_EPOCH,
        )
        self.loss = nn.CrossEntropyLoss()

    def build_training_data_loader(self) -> DataLoader:
        return DataLoader(
            self.train_data, batch_size=self.context.get_per_slot_batch_size(), shuffle=True
        )

    def build_validation_data_loader(self) -> DataLoader:
        # 450 digits in 6 equal batches: their mean accuracy is the accuracy over all digits
        return DataLoader(self.validation_data, batch_size=75)

    def build_callbacks(self) -> dict[str, PyTorchCallback]:
        return {"results": ResultTable(self.context)}

    def train_batch(self, batch: TorchData, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        images, labels = batch
        loss = self.loss(self.model(images), labels)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch: TorchData) -> dict[str, Any]:
        images, labels = batch
        output = self.model(images)
        accuracy = (output.argmax(dim=1) == labels).float().mean()
        return {"validation_loss": self.loss(output, labels), "accuracy": accuracy}

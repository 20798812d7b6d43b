"""The trials of old.py, rewritten for the context API."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from common import Rows, Scaled, Things, TwoHeads, UnevenBatches, hits, two_losses
from determined.pytorch import DataLoader, LRScheduler, PyTorchTrial, PyTorchTrialContext, Reducer
from torch import nn


class _FromThings(PyTorchTrial):
    def __init__(self, context: PyTorchTrialContext) -> None:
        self.context, self.hparams = context, context.get_hparams()
        assert Path(context.get_data_config()["folder"]).is_dir()
        model = TwoHeads(self.hparams["width"], self.hparams["dropout"])
        self.reset(model)
        optimizer = self.make_optimizer(model)
        self.model, self.optimizer = context.wrap_model(model), context.wrap_optimizer(optimizer)
        self.schedule()

    def reset(self, model: nn.Module) -> None:
        """Nothing."""

    def schedule(self) -> None:
        """Nothing."""

    def build_training_data_loader(self) -> DataLoader:
        size = self.hparams["batch_size"]
        return DataLoader(Things(22, 1), batch_size=size, shuffle=True, drop_last=True)

    def build_validation_data_loader(self) -> DataLoader:
        return DataLoader(Things(12, 2), batch_size=self.hparams["batch_size"])

    def step(self, loss: torch.Tensor) -> None:
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)


class Standard(_FromThings):
    def reset(self, model: nn.Module) -> None:
        for module in model.modules():
            if hasattr(module, "reset_parameters"):
                module.reset_parameters()

    def make_optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.Adam(model.parameters(), lr=self.hparams["learning_rate"])

    def schedule(self) -> None:
        mode = LRScheduler.StepMode[self.hparams["step"].upper()]
        scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 2, 0.5)
        self.context.wrap_lr_scheduler(scheduler, mode)

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        inputs, labels = batch
        predictions = self.model(inputs)
        losses = two_losses(predictions, labels)
        metrics = {"hits": hits(predictions, labels), "twice": 2 * losses["color"]}
        self.step(losses["loss"])
        return {**metrics, **losses}

    def evaluate_batch(self, batch: Any) -> dict[str, Any]:
        inputs, labels = batch
        predictions = self.model(inputs)
        losses = two_losses(predictions, labels)
        return {"hits": hits(predictions, labels), "validation_loss": losses["loss"]}


class Bare(_FromThings):
    def make_optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=self.hparams["learning_rate"], momentum=0.9)

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        inputs, labels = batch
        loss = two_losses(self.model(inputs), labels)["loss"]
        self.step(loss)
        return {"loss": loss}

    def evaluate_batch(self, batch: Any) -> dict[str, Any]:
        inputs, labels = batch
        predictions = self.model(inputs)
        error = (predictions["color"].argmax(1) != labels["color"]).float().mean()
        return {"error": error, "loss": two_losses(predictions, labels)["loss"]}


class Net(nn.Module):
    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.dropout = dropout
        self.first, self.second = nn.Linear(4, width), nn.Linear(width, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(F.dropout(self.first(x), self.dropout, self.training))


class Later(PyTorchTrial):
    def __init__(self, context: PyTorchTrialContext) -> None:
        self.context, self.hparams = context, context.get_hparams()
        lr = self.hparams["learning_rate"]
        self.model = context.wrap_model(Net(self.hparams["width"], self.hparams["dropout"]))
        self.optimizer = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=lr))
        self.schedule(lr)

    def schedule(self, lr: float) -> None:
        self.scheduler = self.context.wrap_lr_scheduler(
            Scaled(self.optimizer, lr), LRScheduler.StepMode.MANUAL_STEP
        )

    def build_training_data_loader(self) -> DataLoader:
        return DataLoader(Rows(20, 1), batch_sampler=UnevenBatches(20, self.hparams["batch_size"]))

    def build_validation_data_loader(self) -> DataLoader:
        return DataLoader(Rows(10, 2), batch_size=self.hparams["batch_size"])

    def error(self, predictions: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (predictions.argmax(1) != y).float().mean()

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        x, y = batch
        self.scheduler.scale = len(x) / self.hparams["batch_size"]
        self.scheduler.step()
        predictions = self.model(x)
        loss = F.cross_entropy(predictions, y) * (1 + 0.1 * epoch_idx)
        error = self.error(predictions, y)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss, "error": error}

    def evaluate_batch(self, batch: Any) -> dict[str, Any]:
        x, y = batch
        return {"error": self.error(self.model(x), y), "rows": len(x)}

    def evaluation_reducer(self) -> dict[str, Reducer]:
        return {"error": Reducer.AVG, "rows": Reducer.SUM}


class WholeDataset(Later):
    evaluate_batch = None

    def schedule(self, lr: float) -> None:
        """Nothing."""

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> torch.Tensor:
        x, y = batch
        loss = F.cross_entropy(self.model(x), y)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return loss

    def evaluate_full_dataset(self, data_loader: Any) -> dict[str, Any]:
        return {"error": sum(float(self.error(self.model(x), y)) for x, y in data_loader)}

"""Trials as PEDL had them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from common import Scaled, Things, TwoHeads, hits, two_losses
from torch import nn

import pedl
from pedl.frameworks.pytorch import LRScheduler, PyTorchTrial, Reducer, reset_parameters
from pedl.frameworks.pytorch.data import DataLoader
from pedl.frameworks.pytorch.util import error_rate


def download_data(experiment_config: dict[str, Any], hparams: dict[str, Any]) -> str:
    folder = Path(experiment_config["data"]["folder"])
    with (folder / "downloads.txt").open("a") as file:
        file.write("once\n")
    return str(folder)


def make_data_loaders(experiment_config: dict[str, Any], hparams: dict[str, Any]) -> Any:
    assert (Path(pedl.get_download_data_dir()) / "downloads.txt").read_text() == "once\n"
    assert pedl.get_data_config() == experiment_config["data"]
    return (
        DataLoader(Things(22, 1), batch_size=hparams["batch_size"], shuffle=True, drop_last=True),
        DataLoader(Things(12, 2), batch_size=hparams["batch_size"]),
    )


class Standard(PyTorchTrial):
    """Several inputs and outputs, and hyperparameters as arguments."""

    def __init__(self, hparams: dict[str, Any]) -> None:
        super().__init__(hparams)
        self.hparams = hparams

    def build_model(self, hparams: dict[str, Any]) -> nn.Module:
        model = TwoHeads(hparams["width"], hparams["dropout"])
        reset_parameters(model)
        return model

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.Adam(model.parameters(), lr=self.hparams["learning_rate"])

    def batch_size(self) -> int:
        return self.hparams["batch_size"]

    def create_lr_scheduler(self, optimizer: torch.optim.Optimizer) -> LRScheduler:
        steps = {self.hparams["step"]: True}
        return LRScheduler(torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5), **steps)

    def losses(self, predictions: Any, labels: Any) -> Any:
        return two_losses(predictions, labels)

    def training_metrics(self, predictions: Any, labels: Any, losses: Any) -> dict[str, Any]:
        return {"hits": hits(predictions, labels), "twice": 2 * losses["color"]}

    def validation_metrics(self, predictions: Any, labels: Any, losses: Any) -> dict[str, Any]:
        return {"hits": hits(predictions, labels), "validation_loss": losses["loss"]}


class Bare:
    """No base class, no ``__init__``, no batch_size(), a loss that is a tensor."""

    def build_model(self, hparams: dict[str, Any]) -> nn.Module:
        return TwoHeads(hparams["width"], hparams["dropout"])

    def optimizer(self, model: nn.Module, hparams: dict[str, Any]) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=hparams["learning_rate"], momentum=0.9)

    def losses(self, predictions: Any, labels: Any) -> torch.Tensor:
        return two_losses(predictions, labels)["loss"]

    def validation_metrics(self, predictions: Any, labels: Any, losses: Any) -> dict[str, Any]:
        return {"error": error_rate(predictions["color"], labels["color"]), "loss": losses}


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, pedl.get_hyperparameter("width"))
        self.second = nn.Linear(pedl.get_hyperparameter("width"), 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(
            F.dropout(self.first(x), pedl.get_hyperparameter("dropout"), self.training)
        )


class Schedule(Scaled):
    def get_lr(self) -> list[float]:
        assert self.base == pedl.get_hyperparameter("learning_rate")
        return super().get_lr()


class Later(PyTorchTrial):
    """No context, no ``__init__``; loader functions in a module of their own."""

    def build_model(self) -> nn.Module:
        return Net()

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=pedl.get_hyperparameter("learning_rate"))

    def create_lr_scheduler(self, optimizer: torch.optim.Optimizer) -> LRScheduler:
        self.schedule = Schedule(optimizer, pedl.get_hyperparameter("learning_rate"))
        return LRScheduler(self.schedule)

    def train_batch(self, batch: Any, model: nn.Module, epoch_idx: int, batch_idx: int) -> Any:
        x, y = batch
        self.schedule.scale = len(x) / pedl.get_hyperparameter("batch_size")
        self.schedule.step()
        predictions = model(x)
        loss = F.cross_entropy(predictions, y) * (1 + 0.1 * epoch_idx)
        return {"loss": loss, "error": error_rate(predictions, y)}

    def evaluate_batch(self, batch: Any, model: nn.Module) -> dict[str, Any]:
        x, y = batch
        return {"error": error_rate(model(x), y), "rows": len(x)}

    def evaluation_reducer(self) -> dict[str, Reducer]:
        return {"error": Reducer.AVG, "rows": Reducer.SUM}


class WholeDataset(Later):
    """Evaluates all the data at once, and returns a bare loss."""

    evaluate_batch = None

    def create_lr_scheduler(self, optimizer: torch.optim.Optimizer) -> None:
        return None

    def train_batch(self, batch: Any, model: nn.Module, epoch_idx: int, batch_idx: int) -> Any:
        x, y = batch
        return F.cross_entropy(model(x), y)

    def evaluate_full_dataset(self, data_loader: Any, model: nn.Module) -> dict[str, Any]:
        return {"error": sum(float(error_rate(model(x), y)) for x, y in data_loader)}

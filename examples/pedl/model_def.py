"""Reads a digit and tells whether it is five or more, from the halves of its image.

The model has several inputs and several outputs. What its forward() returns is passed to losses()
and validation_metrics() as `predictions`, untouched; the labels are the second part of each batch.
"""

import os
from typing import Any, Dict, Tuple

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn

import pedl
from pedl.frameworks.pytorch import LRScheduler, PyTorchTrial, reset_parameters
from pedl.frameworks.pytorch.data import DataLoader, TorchData
from pedl.frameworks.pytorch.util import error_rate

VALIDATION_ROWS = 360


def download_data(experiment_config: Dict[str, Any], hparams: Dict[str, Any]) -> str:
    directory = experiment_config["data"]["directory"]
    os.makedirs(directory, exist_ok=True)
    digits = load_digits()
    np.savez(os.path.join(directory, "digits.npz"), images=digits.images, labels=digits.target)
    return directory


class HalfDigits(torch.utils.data.Dataset):
    def __init__(self, images: np.ndarray, labels: np.ndarray) -> None:
        self.images = (images / 16).astype(np.float32)
        self.labels = labels

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> Tuple:
        top, bottom = self.images[index][:4], self.images[index][4:]
        digit = self.labels[index]
        return {"top": top, "bottom": bottom}, {"digit": digit, "is_large": np.float32(digit >= 5)}


def make_data_loaders(
    experiment_config: Dict[str, Any], hparams: Dict[str, Any]
) -> Tuple[DataLoader, DataLoader]:
    data = np.load(os.path.join(pedl.get_download_data_dir(), "digits.npz"))
    images, labels = data["images"], data["labels"]
    training = HalfDigits(images[VALIDATION_ROWS:], labels[VALIDATION_ROWS:])
    validation = HalfDigits(images[:VALIDATION_ROWS], labels[:VALIDATION_ROWS])
    batch_size = hparams["batch_size"]
    return (
        DataLoader(training, batch_size=batch_size, shuffle=True),
        DataLoader(validation, batch_size=batch_size),
    )


class TwoHalves(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        width = pedl.get_hyperparameter("width")
        self.top = nn.Linear(32, width)
        self.bottom = nn.Linear(32, width)
        self.body = nn.Sequential(
            nn.ReLU(),
            nn.Linear(2 * width, width),
            nn.ReLU(),
            nn.Dropout(pedl.get_hyperparameter("dropout")),
        )
        self.digit = nn.Linear(width, 10)
        self.is_large = nn.Linear(width, 1)

    def forward(self, inputs: TorchData) -> TorchData:
        top = self.top(inputs["top"].flatten(1))
        bottom = self.bottom(inputs["bottom"].flatten(1))
        hidden = self.body(torch.cat([top, bottom], dim=1))
        return {"digit": self.digit(hidden), "is_large": self.is_large(hidden).squeeze(1)}


class HalfDigitsTrial(PyTorchTrial):
    def build_model(self, hparams: Dict[str, Any]) -> nn.Module:
        model = TwoHalves()
        reset_parameters(model)
        return model

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.Adam(model.parameters(), lr=pedl.get_hyperparameter("learning_rate"))

    def create_lr_scheduler(self, optimizer: torch.optim.Optimizer) -> LRScheduler:
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
        return LRScheduler(scheduler, step_every_epoch=True)

    def batch_size(self) -> int:
        return pedl.get_hyperparameter("batch_size")

    def losses(self, predictions: TorchData, labels: TorchData) -> TorchData:
        digit = nn.functional.cross_entropy(predictions["digit"], labels["digit"])
        is_large = nn.functional.binary_cross_entropy_with_logits(
            predictions["is_large"], labels["is_large"]
        )
        return {"loss": digit + 0.5 * is_large, "digit_loss": digit, "is_large_loss": is_large}

    def training_metrics(
        self, predictions: TorchData, labels: TorchData, losses: TorchData
    ) -> Dict[str, torch.Tensor]:
        return {"training_error": error_rate(predictions["digit"], labels["digit"])}

    def validation_metrics(
        self, predictions: TorchData, labels: TorchData, losses: TorchData
    ) -> Dict[str, torch.Tensor]:
        is_wrong = (predictions["is_large"] > 0) != (labels["is_large"] > 0)
        return {
            "validation_error": error_rate(predictions["digit"], labels["digit"]),
            # one number a row: they are averaged as well
            "is_large_error": is_wrong.float(),
            "validation_loss": losses["loss"],
        }

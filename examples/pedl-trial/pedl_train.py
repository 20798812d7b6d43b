"""
Classifies wines with PEDL's PyTorchTrial, and creates the experiment from this very script.

Variables of the script that a search could vary are pedl.Constants; all functions below see them.
"""

from typing import Any, Dict, Tuple

import torch
from sklearn.datasets import load_wine
from torch import nn

import pedl
from pedl.frameworks.pytorch import LRScheduler, PyTorchTrial
from pedl.frameworks.pytorch.data import DataLoader, TorchData
from pedl.frameworks.pytorch.util import error_rate


def make_data_loaders(
    experiment_config: Dict[str, Any], hparams: Dict[str, Any]
) -> Tuple[DataLoader, DataLoader]:
    wine = load_wine()
    features = torch.tensor(wine.data, dtype=torch.float32)
    features = (features - features.mean(0)) / features.std(0)
    labels = torch.tensor(wine.target)
    validation = torch.arange(len(labels)) % 5 == 0
    training, held_out = (
        torch.utils.data.TensorDataset(features[rows], labels[rows])
        for rows in (~validation, validation)
    )
    return (
        DataLoader(training, batch_size=batch_size, shuffle=True),
        DataLoader(held_out, batch_size=batch_size),
    )


class WineTrial(PyTorchTrial):
    def build_model(self) -> nn.Module:
        hidden = pedl.get_hyperparameter("hidden")
        return nn.Sequential(nn.Linear(13, hidden), nn.Tanh(), nn.Linear(hidden, 3))

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.parameters(), lr=init_lr, momentum=0.9)

    def create_lr_scheduler(self, optimizer: torch.optim.Optimizer) -> LRScheduler:
        self.warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=20)
        # neither every batch nor every epoch: train_batch steps it
        return LRScheduler(self.warmup)

    def train_batch(
        self, batch: TorchData, model: nn.Module, epoch_idx: int, batch_idx: int
    ) -> Dict[str, torch.Tensor]:
        features, labels = batch
        if batch_idx > 0:
            self.warmup.step()
        output = model(features)
        loss = nn.functional.cross_entropy(output, labels)
        return {"loss": loss, "train_error": error_rate(output, labels)}

    def evaluate_batch(self, batch: TorchData, model: nn.Module) -> Dict[str, Any]:
        features, labels = batch
        return {"validation_error": error_rate(model(features), labels)}


if __name__ == "__main__":
    batch_size = pedl.Constant(value=16, name="batch_size")
    init_lr = pedl.Constant(value=0.05, name="init_lr")

    config = {
        "description": "wine_pytorch",
        "hyperparameters": {"hidden": 16},
        "searcher": {
            "name": "single",
            "metric": "validation_error",
            "max_steps": int(30 * 142 / batch_size / 100),
        },
        "min_validation_period": 1,
        "reproducibility": {"experiment_seed": 1},
    }

    exp = pedl.Experiment(
        trial_def=WineTrial, make_data_loaders_fn=make_data_loaders, configuration=config
    )
    exp.create()

"""A small classifier, which the other trials vary."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from determined.pytorch import DataLoader, PyTorchTrial, PyTorchTrialContext
from torch import nn
from torch.utils.data import Dataset, TensorDataset

FEATURES, CLASSES = 5, 3


def rows(count: int = 22, seed: int = 7) -> TensorDataset:
    """``count`` rows of features and labels, the same in every run."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, FEATURES, generator=generator)
    y = torch.randint(0, CLASSES, (count,), generator=generator)
    return TensorDataset(x, y)


class Augmented(Dataset):
    """Rows with noise from the global random number generators."""

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int):
        x, y = self.dataset[index]
        return x + 0.1 * torch.randn(x.shape) + 0.01 * float(np.random.rand()), y


class Classifier(PyTorchTrial):
    """Six batches of four rows an epoch, of which the last one has two; shuffled."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        self.context = context
        self.seen = []
        self.model = context.wrap_model(self.net())
        self.optimizer = context.wrap_optimizer(self.sgd())

    def hparam(self, name: str, default):
        return self.context.get_hparams().get(name, default)

    def net(self) -> nn.Module:
        return nn.Sequential(nn.Linear(FEATURES, 8), nn.Tanh(), nn.Linear(8, CLASSES))

    def sgd(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)

    def build_training_data_loader(self) -> DataLoader:
        return DataLoader(rows(), batch_size=self.context.get_per_slot_batch_size(), shuffle=True)

    def build_validation_data_loader(self) -> DataLoader:
        return DataLoader(rows(10, seed=8), batch_size=self.context.get_per_slot_batch_size())

    def loss(self, batch) -> torch.Tensor:
        x, y = batch
        return F.cross_entropy(self.model(x), y)

    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = self.loss(batch)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch):
        x, y = batch
        output = self.model(x)
        accuracy = (output.argmax(1) == y).float().mean()
        return {"validation_loss": F.cross_entropy(output, y), "accuracy": accuracy}

"""Shuffling, dropout, BatchNorm, augmentation, loader workers."""

from __future__ import annotations

import torch
from determined.pytorch import DataLoader, LRScheduler, PyTorchTrialContext
from torch import nn

from trials.base import CLASSES, FEATURES, Augmented, Classifier, rows


class Noisy(Classifier):
    """Everything that draws random numbers or keeps buffers."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        super().__init__(context)
        self.scheduler = context.wrap_lr_scheduler(
            torch.optim.lr_scheduler.StepLR(self.optimizer, 1, 0.5),
            step_mode=LRScheduler.StepMode.STEP_EVERY_EPOCH,
        )

    def net(self) -> nn.Module:
        return nn.Sequential(
            nn.Linear(FEATURES, 16),
            nn.BatchNorm1d(16),
            nn.ReLU(),
            nn.Dropout(0.3),
            nn.Linear(16, CLASSES),
        )

    def sgd(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.model.parameters(), lr=0.01)

    def build_training_data_loader(self) -> DataLoader:
        return DataLoader(
            Augmented(rows(26)),
            batch_size=self.context.get_per_slot_batch_size(),
            shuffle=True,
            num_workers=self.hparam("workers", 0),
            drop_last=self.hparam("drop_last", False),
            persistent_workers=self.hparam("persistent", False),
        )

    def build_validation_data_loader(self) -> DataLoader:
        return DataLoader(
            Augmented(rows(9, seed=8)),
            batch_size=self.context.get_per_slot_batch_size(),
            num_workers=self.hparam("workers", 0),
        )


class OwnGenerator(Noisy):
    """The loader shuffles with a generator of its own."""

    def build_training_data_loader(self) -> DataLoader:
        return DataLoader(
            Augmented(rows(26)),
            batch_size=self.context.get_per_slot_batch_size(),
            shuffle=True,
            generator=torch.Generator().manual_seed(5),
            num_workers=self.hparam("workers", 0),
        )


class OwnSampler(Noisy):
    """A weighted sampler; shuffled validation."""

    def build_training_data_loader(self) -> DataLoader:
        data = rows(26)
        weights = torch.linspace(0.1, 1.0, len(data))
        return DataLoader(
            data,
            batch_size=self.context.get_per_slot_batch_size(),
            sampler=torch.utils.data.WeightedRandomSampler(weights, 22),
        )

    def build_validation_data_loader(self) -> DataLoader:
        return DataLoader(rows(9, seed=8), batch_size=4, shuffle=True)


class OwnBatchSampler(Noisy):
    """A batch sampler of the user's, with batches of different sizes."""

    def build_training_data_loader(self) -> DataLoader:
        batches = [[0, 1, 2], [3, 4], [5, 6, 7, 8], [9, 10], [11, 12, 13]]
        return DataLoader(rows(26), batch_sampler=batches)

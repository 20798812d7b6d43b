"""Several models and optimizers."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from determined.pytorch import DataLoader, LRScheduler, PyTorchTrial, PyTorchTrialContext
from torch import nn

from trials.base import FEATURES, rows


def toggle(model: nn.Module, required: bool) -> None:
    for parameter in model.parameters():
        parameter.requires_grad = required


class Gan(PyTorchTrial):
    """A generator and a discriminator, stepped one after the other on every batch."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        self.context = context
        self.generator = context.wrap_model(
            nn.Sequential(
                nn.Linear(3, 8), nn.BatchNorm1d(8), nn.LeakyReLU(), nn.Linear(8, FEATURES)
            )
        )
        self.discriminator = context.wrap_model(
            nn.Sequential(nn.Linear(FEATURES, 8), nn.LeakyReLU(), nn.Linear(8, 1))
        )
        self.g_opt = context.wrap_optimizer(torch.optim.Adam(self.generator.parameters(), lr=0.01))
        self.d_opt = context.wrap_optimizer(
            torch.optim.RMSprop(self.discriminator.parameters(), lr=0.01)
        )
        self.scheduler = context.wrap_lr_scheduler(
            torch.optim.lr_scheduler.LambdaLR(self.g_opt, lambda step: 0.9**step),
            step_mode=LRScheduler.StepMode.STEP_EVERY_EPOCH,
        )

    def build_training_data_loader(self) -> DataLoader:
        size = self.context.get_per_slot_batch_size()
        return DataLoader(rows(24), batch_size=size, shuffle=True)

    def build_validation_data_loader(self) -> DataLoader:
        return DataLoader(rows(8, seed=8), batch_size=self.context.get_per_slot_batch_size())

    def verdict(self, rows: torch.Tensor, real: bool) -> torch.Tensor:
        score = self.discriminator(rows)
        target = torch.ones_like(score) if real else torch.zeros_like(score)
        return F.binary_cross_entropy_with_logits(score, target)

    def generator_step(self, count: int) -> torch.Tensor:
        toggle(self.discriminator, False)
        toggle(self.generator, True)
        loss = self.verdict(self.generator(torch.randn(count, 3)), True)
        self.context.backward(loss)
        self.context.step_optimizer(self.g_opt)
        return loss

    def discriminator_step(self, real: torch.Tensor) -> torch.Tensor:
        toggle(self.generator, False)
        toggle(self.discriminator, True)
        fake = self.generator(torch.randn(len(real), 3)).detach()
        loss = (self.verdict(real, True) + self.verdict(fake, False)) / 2
        self.context.backward(loss)
        self.context.step_optimizer(self.d_opt)
        return loss

    def train_batch(self, batch, epoch_idx, batch_idx):
        real, _ = batch
        g_loss = self.generator_step(len(real))
        d_loss = self.discriminator_step(real)
        return {"loss": d_loss, "g_loss": g_loss, "d_loss": d_loss}

    def evaluate_batch(self, batch):
        real, _ = batch
        return {"loss": self.verdict(self.generator(torch.randn(len(real), 3)), False)}


class AlternatingGan(Gan):
    """The generator is stepped on even batches, the discriminator on odd ones."""

    def train_batch(self, batch, epoch_idx, batch_idx):
        real, _ = batch
        if batch_idx % 2 == 0:
            return {"loss": self.generator_step(len(real))}
        return {"loss": self.discriminator_step(real)}


class CriticGan(Gan):
    """Three discriminator steps for each step of the generator; clipped weights."""

    def train_batch(self, batch, epoch_idx, batch_idx):
        real, _ = batch
        for _ in range(3):
            d_loss = self.discriminator_step(real)
            with torch.no_grad():
                for parameter in self.discriminator.parameters():
                    parameter.clamp_(-0.5, 0.5)
        return {"d_loss": d_loss, "g_loss": self.generator_step(len(real))}


class FlagFreeGan(Gan):
    """No requires_grad toggled: gradients of the generator's loss stay in the discriminator."""

    def train_batch(self, batch, epoch_idx, batch_idx):
        real, _ = batch
        fake = self.generator(torch.randn(len(real), 3))
        g_loss = self.verdict(fake, True)
        self.context.backward(g_loss)
        self.context.step_optimizer(self.g_opt)
        self.d_opt.zero_grad()
        d_loss = self.verdict(real, True) + self.verdict(fake.detach(), False)
        self.context.backward(d_loss)
        self.context.step_optimizer(self.d_opt)
        return {"g_loss": g_loss, "d_loss": d_loss}


class SharedOptimizer(Gan):
    """Two models under one optimizer with two groups, and one loss."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        self.context = context
        self.encoder = context.wrap_model(nn.Linear(FEATURES, 4))
        self.decoder = context.wrap_model(nn.Linear(4, FEATURES))
        groups = [
            {"params": self.encoder.parameters(), "lr": 0.1},
            {"params": self.decoder.parameters()},
        ]
        self.optimizer = context.wrap_optimizer(torch.optim.AdamW(groups, lr=0.01))

    def loss(self, batch) -> torch.Tensor:
        x, _ = batch
        return F.mse_loss(self.decoder(self.encoder(x)), x)

    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = self.loss(batch)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch):
        return {"loss": self.loss(batch)}

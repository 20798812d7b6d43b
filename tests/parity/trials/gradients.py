"""Trials that take gradients into their own hands."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from determined.pytorch import PyTorchTrialContext

from trials.base import Classifier


class Penalty(Classifier):
    """A gradient penalty: second-order gradients."""

    def train_batch(self, batch, epoch_idx, batch_idx):
        x, y = batch
        x = x.clone().requires_grad_(True)
        loss = F.cross_entropy(self.model(x), y)
        (slope,) = torch.autograd.grad(loss, x, create_graph=True)
        total = loss + slope.square().sum()
        self.context.backward(total)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss, "slope": slope.norm()}


class CreateGraph(Classifier):
    """context.backward(create_graph=True), and a backward through the gradients."""

    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = self.loss(batch)
        retain = self.hparam("retain", True)
        self.context.backward(loss, retain_graph=retain, create_graph=True)
        norm = sum(p.grad.square().sum() for p in self.model.parameters())
        self.context.backward(0.1 * norm)
        self.context.step_optimizer(self.optimizer)
        for parameter in self.model.parameters():
            parameter.grad = None
        return {"loss": loss, "norm": norm}


class RetainGraph(Classifier):
    """Two backward passes over one graph, and one of a loss that is no scalar."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        super().__init__(context)
        self.backward = context.backward
        self.step = context.step_optimizer

    def train_batch(self, batch, epoch_idx, batch_idx):
        x, y = batch
        losses = F.cross_entropy(self.model(x), y, reduction="none")
        self.backward(losses.mean(), retain_graph=True)
        self.backward(losses, gradient=torch.linspace(0.1, 1, len(x)))
        self.step(self.optimizer)
        return {"loss": losses.mean()}


class KeepsGradients(Classifier):
    """auto_zero_grads=False: gradients are dropped every third batch."""

    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = self.loss(batch)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer, auto_zero_grads=False)
        if batch_idx % 3 == 2:
            self.optimizer.zero_grad(set_to_none=batch_idx % 2 == 0)
        return {"loss": loss}


class OnItsOwn(Classifier):
    """loss.backward() and optimizer.step(), without the context."""

    def train_batch(self, batch, epoch_idx, batch_idx):
        self.optimizer.zero_grad()
        loss = self.loss(batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 0.1)
        self.optimizer.step()
        return {"loss": loss}


class Mixed(Classifier):
    """optimizer.step() and context.step_optimizer() in one batch."""

    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = self.loss(batch)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        again = self.loss(batch)
        self.context.backward(again)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss, "again": again}


class Closure(Classifier):
    """LBFGS with a closure."""

    def sgd(self) -> torch.optim.Optimizer:
        return torch.optim.LBFGS(self.model.parameters(), lr=0.1, max_iter=3)

    def train_batch(self, batch, epoch_idx, batch_idx):
        def closure() -> torch.Tensor:
            self.optimizer.zero_grad()
            loss = self.loss(batch)
            self.context.backward(loss)
            return loss

        return {"loss": self.optimizer.step(closure)}


class SometimesSteps(Classifier):
    """Skips the step, or the whole batch, now and then."""

    def train_batch(self, batch, epoch_idx, batch_idx):
        if batch_idx % 4 == 3:
            return {"loss": torch.tensor(0.0)}
        loss = self.loss(batch)
        self.context.backward(loss)
        if batch_idx % 4 != 1:
            self.context.step_optimizer(self.optimizer)
        return {"loss": loss}


class SeveralSteps(Classifier):
    """Three passes over each batch."""

    def train_batch(self, batch, epoch_idx, batch_idx):
        for _ in range(3):
            loss = self.loss(batch)
            self.context.backward(loss)
            self.context.step_optimizer(self.optimizer)
        return {"loss": loss}


class Frozen(Classifier):
    """Half of the model is frozen until the second epoch."""

    def train_batch(self, batch, epoch_idx, batch_idx):
        net = getattr(self.model, "module", self.model)
        net[0].requires_grad_(epoch_idx > 0)
        return super().train_batch(batch, epoch_idx, batch_idx)

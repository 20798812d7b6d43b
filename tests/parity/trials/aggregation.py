"""Gradient aggregation, learning rate schedules, gradient clipping."""

from __future__ import annotations

import torch
from determined.pytorch import LRScheduler, PyTorchTrialContext

from trials.base import Classifier

CLIPS = {
    None: None,
    "norm": lambda parameters: torch.nn.utils.clip_grad_norm_(parameters, 0.05),
    "value": lambda parameters: torch.nn.utils.clip_grad_value_(parameters, 0.01),
}


class Scheduled(Classifier):
    """One schedule, in the mode that the hyperparameters name."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        super().__init__(context)
        self.scheduler = context.wrap_lr_scheduler(
            torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.9),
            step_mode=LRScheduler.StepMode[self.hparam("step_mode", "STEP_EVERY_BATCH")],
            frequency=self.hparam("frequency", 1),
        )

    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = self.loss(batch)
        self.context.backward(loss)
        clip = CLIPS[self.hparam("clip", None)]
        self.context.step_optimizer(self.optimizer, clip_grads=clip)
        if self.hparam("by_hand", False) and batch_idx % 2:
            self.scheduler.step()
        return {"loss": loss, "lr": self.scheduler.get_last_lr()[0]}


class Summed(Scheduled):
    """Aggregated gradients are summed, not averaged."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        wrap = context.wrap_optimizer
        context.wrap_optimizer = lambda opt: wrap(opt, average_aggregated_gradients=False)
        super().__init__(context)


class TwoSchedules(Classifier):
    """Two optimizers for one model, each with a schedule; one of them sums gradients."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        self.context = context
        self.model = context.wrap_model(self.net())
        net = getattr(self.model, "module", self.model)
        first, second = net[0], net[2]
        self.first = context.wrap_optimizer(torch.optim.SGD(first.parameters(), lr=0.1))
        self.second = context.wrap_optimizer(
            torch.optim.Adagrad(second.parameters(), lr=0.1),
            backward_passes_per_step=1,
            average_aggregated_gradients=False,
        )
        modes = LRScheduler.StepMode
        context.wrap_lr_scheduler(
            torch.optim.lr_scheduler.CosineAnnealingLR(self.first, 5), modes.STEP_EVERY_BATCH, 2
        )
        context.wrap_lr_scheduler(
            torch.optim.lr_scheduler.MultiStepLR(self.second, [1, 3], 0.3),
            modes.STEP_EVERY_OPTIMIZER_STEP,
            frequency=2,
        )

    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = self.loss(batch)
        self.context.backward(loss)
        self.context.step_optimizer(self.second, CLIPS["norm"])
        self.context.step_optimizer(self.first)
        return {"loss": loss}


class KeepsGradients(Classifier):
    """auto_zero_grads=False, which aggregation refuses."""

    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = self.loss(batch)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer, auto_zero_grads=False)
        if batch_idx % 2:
            self.optimizer.zero_grad()
        return {"loss": loss}


class LooksAtGradients(Classifier):
    """Notes gradients before, in and after the step; hooks on parameters."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        super().__init__(context)
        for parameter in self.model.parameters():
            parameter.register_hook(lambda grad: 0.5 * grad)

    def note(self, when: str) -> None:
        gradients = [parameter.grad for parameter in self.model.parameters()]
        self.seen.append((when, [None if g is None else g.clone() for g in gradients]))

    def train_batch(self, batch, epoch_idx, batch_idx):
        def clip(parameters) -> None:
            self.seen.append((type(parameters).__name__, len(parameters)))
            self.note("clip")

        self.note("start")
        loss = self.loss(batch)
        self.context.backward(loss)
        self.note("backward")
        self.context.step_optimizer(self.optimizer, clip)
        self.note("end")
        return {"loss": loss}

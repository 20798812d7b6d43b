"""What does not make a trial."""

from __future__ import annotations

import torch
from determined.pytorch import LRScheduler, PyTorchTrialContext

from trials.base import Classifier


class NoModel(Classifier):
    """Nothing wrapped."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        self.context = context
        self.model = self.net()
        self.optimizer = context.wrap_optimizer(self.sgd())


class NoOptimizer(Classifier):
    """A model alone."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        self.context = context
        self.model = context.wrap_model(self.net())


class StrangeScheduler(Classifier):
    """A scheduler of an optimizer that is not wrapped."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        super().__init__(context)
        scheduler = torch.optim.lr_scheduler.StepLR(self.sgd(), 1)
        context.wrap_lr_scheduler(scheduler, LRScheduler.StepMode.MANUAL_STEP)


class AutomaticPlateau(Classifier):
    """ReduceLROnPlateau in a mode that steps it without a metric."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        super().__init__(context)
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(self.optimizer)
        context.wrap_lr_scheduler(scheduler, LRScheduler.StepMode.STEP_EVERY_EPOCH)


class MissingHparam(Classifier):
    """An hparam that does not exist."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        super().__init__(context)
        context.get_hparam("learning_rate")

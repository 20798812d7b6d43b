"""What trials had in Determined 0.12, the last release with names of its own."""

from typing import Any, TypeVar

import torch
from torch import nn

from det_compat.config.periods import batches_per_step
from det_compat.errors import InvalidExperimentException
from det_compat.pytorch import lr_scheduler as _lr_scheduler

T = TypeVar("T")


class TrialEnv:
    """What ``context.env`` is, as far as trials of the time asked it."""

    def __init__(self, initial_batch: int, batches_per_step: int) -> None:
        self._first_step = initial_batch // batches_per_step + 1

    def first_step(self) -> int:
        """The training step, in steps of ``batches_per_step`` batches, that comes first; 1 at the
        start of training."""
        return self._first_step


class TransitionalContext:
    """What a trial of Determined 0.12 asked its context for; ``wrap_...`` returns it since 0.13."""

    models: list[nn.Module]
    optimizers: list[torch.optim.Optimizer]
    lr_schedulers: list[_lr_scheduler.LRScheduler]

    def LRScheduler(self: Any, lr_scheduler: Any, step_mode: Any) -> _lr_scheduler.LRScheduler:
        """Register a scheduler as ``wrap_lr_scheduler`` does, and return the wrapper."""
        self.wrap_lr_scheduler(lr_scheduler, step_mode)
        wrapper: _lr_scheduler.LRScheduler = self.lr_schedulers[-1]
        return wrapper

    _LRScheduler = LRScheduler

    def get_model(self) -> nn.Module:
        """The model, wrapped.

        Raises:
            InvalidExperimentException: there is not exactly one.
        """
        return _only(self.models, "model", "get_model")

    def get_optimizer(self) -> torch.optim.Optimizer:
        """The optimizer.

        Raises:
            InvalidExperimentException: there is not exactly one.
        """
        return _only(self.optimizers, "optimizer", "get_optimizer")

    def get_lr_scheduler(self) -> _lr_scheduler.LRScheduler | None:
        """The LR scheduler in its wrapper, None if there is none.

        Raises:
            InvalidExperimentException: there are several.
        """
        if not self.lr_schedulers:
            return None
        return _only(self.lr_schedulers, "LR scheduler", "get_lr_scheduler")

    @property
    def n_gpus(self: Any) -> int:
        """The number of GPUs that this process sees; 0 if the trial is not on one."""
        return torch.cuda.device_count() if self.device.type == "cuda" else 0

    @property
    def env(self: Any) -> TrialEnv:
        """The object whose ``first_step()`` says where training starts."""
        return TrialEnv(self.get_initial_batch(), batches_per_step(self._exp_conf))


def _only(found: list[T], what: str, method: str) -> T:
    if len(found) != 1:
        raise InvalidExperimentException(
            f"context.{method}() is for trials with one {what}, and {len(found)} are wrapped by "
            "now: call it later, or keep what context.wrap_...() returned"
        )
    return found[0]


def reset_parameters(model: nn.Module) -> None:
    """Call ``reset_parameters()`` of every module of ``model`` that has it, outermost first.

    Weights that were loaded before are lost: load pretrained ones afterwards. PEDL had it, too.
    """
    for module in model.modules():
        reset = getattr(module, "reset_parameters", None)
        if callable(reset):
            reset()

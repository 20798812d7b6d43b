"""What the context had in Determined 0.12, the last release with names of its own."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from det_compat.errors import InvalidExperimentException
from det_compat.pytorch import lr_scheduler as _lr_scheduler


def batches_per_step(exp_conf: dict[str, Any] | None, default: int = 100) -> int:
    """Batches in a reporting period: the config's ``scheduling_unit``, or ``batches_per_step``."""
    conf = exp_conf or {}
    batches: int = conf.get("scheduling_unit", conf.get("batches_per_step", default))
    return batches


class TrialEnv:
    """``context.env``, as far as trials of the time asked it."""

    def __init__(self, initial_batch: int, batches_per_step: int) -> None:
        self._first_step = initial_batch // batches_per_step + 1

    def first_step(self) -> int:
        """The training step, in steps of ``batches_per_step`` batches, that comes first; 1 at the
        start of training."""
        return self._first_step


class TransitionalContext:
    """Names of Determined 0.12, for what has others since 0.13.

    0.12.12 had ``Model``, ``Optimizer`` and ``LRScheduler`` for what 0.13 calls ``wrap_model``,
    ``wrap_optimizer`` and ``wrap_lr_scheduler``, and underscores before the rest.
    """

    def Model(self: Any, model: nn.Module) -> nn.Module:
        """``wrap_model``."""
        wrapped: nn.Module = self.wrap_model(model)
        return wrapped

    def Optimizer(self: Any, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        """``wrap_optimizer``."""
        wrapped: torch.optim.Optimizer = self.wrap_optimizer(optimizer)
        return wrapped

    def LRScheduler(self: Any, lr_scheduler: Any, step_mode: Any) -> _lr_scheduler.LRScheduler:
        """``wrap_lr_scheduler``, but it returns the wrapper."""
        self.wrap_lr_scheduler(lr_scheduler, step_mode)
        wrapper: _lr_scheduler.LRScheduler = self.lr_schedulers[-1]
        return wrapper

    _Model = Model
    _Optimizer = Optimizer
    _LRScheduler = LRScheduler

    def _backward(self: Any, *args: Any, **kwargs: Any) -> None:
        self.backward(*args, **kwargs)

    def _step_optimizer(self: Any, *args: Any, **kwargs: Any) -> None:
        self.step_optimizer(*args, **kwargs)

    def _configure_apex_amp(self: Any, *args: Any, **kwargs: Any) -> Any:
        return self.configure_apex_amp(*args, **kwargs)

    def _to_device(self: Any, data: Any) -> Any:
        return self.to_device(data)

    def get_model(self: Any) -> nn.Module:
        """The model, wrapped.

        Raises:
            InvalidExperimentException: there is not exactly one.
        """
        model: nn.Module = _only(self.models, "model", "get_model")
        return model

    def get_optimizer(self: Any) -> torch.optim.Optimizer:
        """The optimizer.

        Raises:
            InvalidExperimentException: there is not exactly one.
        """
        optimizer: torch.optim.Optimizer = _only(self.optimizers, "optimizer", "get_optimizer")
        return optimizer

    def get_lr_scheduler(self: Any) -> _lr_scheduler.LRScheduler | None:
        """The LR scheduler in its wrapper, None if there is none.

        Raises:
            InvalidExperimentException: there are several.
        """
        if not self.lr_schedulers:
            return None
        wrapper: _lr_scheduler.LRScheduler = _only(
            self.lr_schedulers, "LR scheduler", "get_lr_scheduler"
        )
        return wrapper

    @property
    def n_gpus(self: Any) -> int:
        """GPUs that this process sees; 0 if the trial is not on one."""
        return torch.cuda.device_count() if self.device.type == "cuda" else 0

    @property
    def env(self: Any) -> TrialEnv:
        """Where training starts, as ``env.first_step()``."""
        return TrialEnv(self.get_initial_batch(), batches_per_step(self._exp_conf))


def _only(found: list[Any], what: str, method: str) -> Any:
    if len(found) != 1:
        raise InvalidExperimentException(
            f"context.{method}() is for trials with one {what}, and {len(found)} are wrapped by "
            "now: call it later, or keep what context.wrap_...() returned"
        )
    return found[0]

"""What the context had in Determined 0.12, and in PEDL before it."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from det_compat.errors import InvalidExperimentException
from det_compat.pytorch._lr_scheduler import LRScheduler


def batches_per_step(exp_conf: dict[str, Any] | None) -> int:
    """Batches in a reporting period: ``scheduling_unit``, once ``batches_per_step``, or 100."""
    conf = exp_conf or {}
    batches: int = conf.get("scheduling_unit", conf.get("batches_per_step", 100))
    return batches


class ExperimentConfig(dict[str, Any]):
    """The experiment config, with what code of the time read off it."""

    def batches_per_step(self) -> int:
        """Batches in a training step."""
        return batches_per_step(self)


class TrialEnv:
    """``context.env``: the trial's surroundings, as far as trials of the time asked for them."""

    def __init__(self, context: TransitionalContext) -> None:
        self._context = context

    def first_step(self) -> int:
        """The training step, of ``batches_per_step`` batches, that comes first: 1 at the start."""
        initial: int = self._context._steps_completed
        return initial // self._context.batches_per_step + 1

"""``pedl.frameworks.pytorch``."""

from __future__ import annotations

from det_compat.pedl.frameworks.pytorch.lr_scheduler import LRScheduler
from det_compat.pedl.frameworks.pytorch.reset import reset_parameters
from det_compat.pedl.frameworks.pytorch.trial import PyTorchTrial
from det_compat.pytorch import Reducer

__all__ = ["LRScheduler", "PyTorchTrial", "Reducer", "reset_parameters"]

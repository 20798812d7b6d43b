"""``pedl.frameworks.pytorch``."""

from __future__ import annotations

from det_compat.pedl.frameworks.pytorch._lr_scheduler import LRScheduler
from det_compat.pedl.frameworks.pytorch._reset_parameters import reset_parameters
from det_compat.pedl.frameworks.pytorch._trial import PyTorchTrial
from det_compat.pytorch import Reducer

__all__ = ["LRScheduler", "PyTorchTrial", "Reducer", "reset_parameters"]

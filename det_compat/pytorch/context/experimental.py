"""``context.experimental``."""

from __future__ import annotations

import logging
from typing import Any

from det_compat.pytorch.context.amp import grad_scaler

logger = logging.getLogger("determined.pytorch")


class PyTorchExperimentalContext:
    """Settings that a trial makes in its ``__init__``, as in Determined 0.38.1."""

    def __init__(self, parent: Any) -> None:
        self._parent = parent
        self._auto_amp = False
        self._data_repro_checks_disabled = False
        self._auto_to_device = True

    def use_amp(self) -> None:
        """Train in float16 with a gradient scaler that ``backward`` and ``step_optimizer`` use.

        Call it before ``wrap_model``. On devices other than CUDA training stays in float32.

        Raises:
            InvalidExperimentException: called twice, after ``wrap_scaler`` or after ``wrap_model``.
        """
        self._parent.wrap_scaler(grad_scaler(self._parent.device))
        self._auto_amp = True

    def wrap_reducer(self, *args: Any, **kwargs: Any) -> Any:
        """``context.wrap_reducer``, under its name of Determined 0.13 to 0.17."""
        return self._parent.wrap_reducer(*args, **kwargs)

    def disable_dataset_reproducibility_checks(self) -> None:
        """Let the trial return loaders that are not ``det_compat.pytorch.DataLoader``.

        Sharding, repeating, shuffling and skipping are then the trial's own business;
        ``det_compat.pytorch.samplers`` has the parts.
        """
        self._data_repro_checks_disabled = True
        logger.info("disabled dataset reproducibility checks")

    def disable_auto_to_device(self) -> None:
        """Leave batches where the loader put them; ``context.to_device`` moves them."""
        self._auto_to_device = False
        logger.info("disabled automatically moving data to device")

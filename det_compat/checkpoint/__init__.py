"""Determined's checkpoints of every version: read without running code from them, and turned into
Lightning checkpoints.

Importing this package imports neither torch nor Lightning.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from det_compat.checkpoint.lightning import to_lightning_checkpoint
    from det_compat.checkpoint.reader import (
        Checkpoint,
        CheckpointMetadata,
        read_checkpoint,
        read_metadata,
    )

_HOME = {
    "Checkpoint": "reader",
    "CheckpointMetadata": "reader",
    "read_checkpoint": "reader",
    "read_metadata": "reader",
    "to_lightning_checkpoint": "lightning",
}

__all__ = [
    "Checkpoint",
    "CheckpointMetadata",
    "read_checkpoint",
    "read_metadata",
    "to_lightning_checkpoint",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})

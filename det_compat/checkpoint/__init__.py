"""Determined's checkpoints of every version: read without running code from them, and turned into
Lightning checkpoints.

Importing this package imports neither torch nor Lightning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from det_compat.checkpoint.reader import (
    Checkpoint,
    CheckpointMetadata,
    read_checkpoint,
    read_metadata,
)

if TYPE_CHECKING:
    from det_compat.checkpoint.lightning import to_lightning_checkpoint

__all__ = [
    "Checkpoint",
    "CheckpointMetadata",
    "read_checkpoint",
    "read_metadata",
    "to_lightning_checkpoint",
]


def __getattr__(name: str) -> Any:
    if name != "to_lightning_checkpoint":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from det_compat.checkpoint import lightning

    return lightning.to_lightning_checkpoint

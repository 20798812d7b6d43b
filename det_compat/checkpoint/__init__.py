"""Determined's checkpoints of every version: read without running code from them, and turned into
Lightning checkpoints.

Importing this package imports neither torch nor Lightning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from det_compat.shared.lazy_names import lazy_names

if TYPE_CHECKING:
    from det_compat.checkpoint.lightning import to_lightning_checkpoint as to_lightning_checkpoint
    from det_compat.checkpoint.reader import Checkpoint as Checkpoint
    from det_compat.checkpoint.reader import CheckpointMetadata as CheckpointMetadata
    from det_compat.checkpoint.reader import read_checkpoint as read_checkpoint
    from det_compat.checkpoint.reader import read_metadata as read_metadata

__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "Checkpoint": "det_compat.checkpoint.reader",
        "CheckpointMetadata": "det_compat.checkpoint.reader",
        "read_checkpoint": "det_compat.checkpoint.reader",
        "read_metadata": "det_compat.checkpoint.reader",
        "to_lightning_checkpoint": "det_compat.checkpoint.lightning",
    },
)

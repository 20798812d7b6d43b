"""The names of ``determined.tensorboard`` 0.38.1 that need no store but a directory."""

from det_compat.tensorboard.managers import (
    DirectoryTensorboardManager,
    SharedFSTensorboardManager,
    TensorboardManager,
    build,
    get_base_path,
    get_experiment_sync_path,
    get_sync_path,
)

__all__ = [
    "DirectoryTensorboardManager",
    "SharedFSTensorboardManager",
    "TensorboardManager",
    "build",
    "get_base_path",
    "get_experiment_sync_path",
    "get_sync_path",
]

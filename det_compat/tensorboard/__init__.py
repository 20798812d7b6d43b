"""The names of ``determined.tensorboard`` 0.38.1 that no cluster is needed for."""

from det_compat.tensorboard.build import (
    build,
    get_base_path,
    get_experiment_sync_path,
    get_sync_path,
)
from det_compat.tensorboard.clouds import (
    AzureTensorboardManager,
    GCSTensorboardManager,
    S3TensorboardManager,
)
from det_compat.tensorboard.managers import (
    DirectoryTensorboardManager,
    SharedFSTensorboardManager,
    TensorboardManager,
)

__all__ = [
    "AzureTensorboardManager",
    "DirectoryTensorboardManager",
    "GCSTensorboardManager",
    "S3TensorboardManager",
    "SharedFSTensorboardManager",
    "TensorboardManager",
    "build",
    "get_base_path",
    "get_experiment_sync_path",
    "get_sync_path",
]

"""What trials use of ``determined.core``: ranks, metric reports, where a run's files are."""

from det_compat.core.checkpoint import CheckpointContext
from det_compat.core.context import Context, PreemptContext
from det_compat.core.distributed import DistributedContext, DummyDistributedContext
from det_compat.core.train import EarlyExitReason, TrainContext, current_tensorboard_path

__all__ = [
    "CheckpointContext",
    "Context",
    "DistributedContext",
    "DummyDistributedContext",
    "EarlyExitReason",
    "PreemptContext",
    "TrainContext",
    "current_tensorboard_path",
]

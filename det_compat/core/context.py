"""The parts of Determined's Core API that a trial's context is made of."""

from __future__ import annotations

from pathlib import Path

from det_compat.core.checkpoint import CheckpointContext
from det_compat.core.distributed import DistributedContext, DummyDistributedContext
from det_compat.core.preempt import PreemptContext
from det_compat.core.tensorboard_path import new_tensorboard_path
from det_compat.core.train import TrainContext


class Context:
    """Ranks, reports, checkpoints and preemption of one run on this machine."""

    def __init__(
        self,
        checkpoint: CheckpointContext | None = None,
        distributed: DistributedContext | None = None,
        preempt: PreemptContext | None = None,
        train: TrainContext | None = None,
        tensorboard_path: Path | None = None,
    ) -> None:
        self.checkpoint = checkpoint or CheckpointContext()
        self.distributed = distributed or DummyDistributedContext()
        self.preempt = preempt or PreemptContext()
        self.train = train or TrainContext(tensorboard_path or new_tensorboard_path())

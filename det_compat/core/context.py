"""The parts of Determined's Core API that a trial's context is made of."""

from __future__ import annotations

from pathlib import Path

from det_compat.core.checkpoint import CheckpointContext
from det_compat.core.distributed import DistributedContext, DummyDistributedContext
from det_compat.core.train import TrainContext, new_tensorboard_path


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


class PreemptContext:
    """Never preempts."""

    def should_preempt(self, auto_ack: bool = True) -> bool:
        """Return False: no scheduler takes this machine away."""
        return False

    def acknowledge_preemption_signal(self) -> None:
        """Do nothing: there is no signal to acknowledge."""

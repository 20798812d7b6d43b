"""The parts of Determined's Core API that a trial's context is made of."""

from __future__ import annotations

from pathlib import Path

from det_compat.core.distributed import DistributedContext, DummyDistributedContext
from det_compat.core.preempt import DummyPreemptContext, PreemptContext
from det_compat.core.store import CheckpointStore
from det_compat.core.train import TrainContext, new_tensorboard_path


class TrialCore:
    """Ranks, reports, checkpoints and preemption of one trial on this machine.

    The trainer of a trial preempts it by itself: ``preempt`` never does.
    """

    def __init__(
        self,
        checkpoint: CheckpointStore | None = None,
        distributed: DistributedContext | None = None,
        preempt: PreemptContext | None = None,
        train: TrainContext | None = None,
        tensorboard_path: Path | None = None,
    ) -> None:
        self.checkpoint = checkpoint or CheckpointStore()
        self.distributed = distributed or DummyDistributedContext()
        self.preempt = preempt or DummyPreemptContext(self.distributed).start()
        self.train = train or TrainContext(tensorboard_path or new_tensorboard_path())

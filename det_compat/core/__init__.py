"""The names of ``determined.core`` 0.38.1: Determined's Core API, without a cluster.

Next to them, what det_compat's own trials are made of: ``CheckpointStore`` and ``TrialCore``.
"""

from det_compat.core.checkpoint import CheckpointContext, DummyCheckpointContext
from det_compat.core.context import Context, init
from det_compat.core.distributed import DistributedContext, DummyDistributedContext
from det_compat.core.downloads import DownloadMode
from det_compat.core.experimental import DummyExperimentalCoreContext, ExperimentalCoreContext
from det_compat.core.preempt import DummyPreemptContext, PreemptContext, PreemptMode
from det_compat.core.profiler import DummyProfilerContext, ProfilerContext
from det_compat.core.reports.kept import TensorboardMode
from det_compat.core.searcher import (
    DummySearcherContext,
    DummySearcherOperation,
    SearcherContext,
    SearcherContextMissing,
    SearcherMode,
    SearcherOperation,
    Unit,
)
from det_compat.core.store import CheckpointStore
from det_compat.core.train import (
    DummyTrainContext,
    EarlyExitReason,
    TrainContext,
    current_tensorboard_path,
)
from det_compat.core.trial_core import TrialCore

__all__ = [
    "CheckpointContext",
    "CheckpointStore",
    "Context",
    "DistributedContext",
    "DownloadMode",
    "DummyCheckpointContext",
    "DummyDistributedContext",
    "DummyExperimentalCoreContext",
    "DummyPreemptContext",
    "DummyProfilerContext",
    "DummySearcherContext",
    "DummySearcherOperation",
    "DummyTrainContext",
    "EarlyExitReason",
    "ExperimentalCoreContext",
    "PreemptContext",
    "PreemptMode",
    "ProfilerContext",
    "SearcherContext",
    "SearcherContextMissing",
    "SearcherMode",
    "SearcherOperation",
    "TensorboardMode",
    "TrainContext",
    "TrialCore",
    "Unit",
    "current_tensorboard_path",
    "init",
]

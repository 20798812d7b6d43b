"""``core.init()``: what a script of Determined's Core API is given."""

from __future__ import annotations

import contextlib
import faulthandler
import io
import logging
import signal
import sys
import types
from collections.abc import Callable
from contextlib import AbstractContextManager
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from det_compat import info
from det_compat.core import storage, tasks
from det_compat.core.checkpoint import CheckpointContext, DummyCheckpointContext
from det_compat.core.distributed import DistributedContext, DummyDistributedContext
from det_compat.core.experimental import DummyExperimentalCoreContext, ExperimentalCoreContext
from det_compat.core.preempt import (
    DummyPreemptContext,
    PreemptContext,
    PreemptMode,
    SignalPreemptContext,
)
from det_compat.core.profiler import DummyProfilerContext, ProfilerContext
from det_compat.core.reports.kept import KeptTrainContext, TensorboardMode
from det_compat.core.searcher import DummySearcherContext, SearcherContext, SearcherContextMissing
from det_compat.core.store import default_base_path
from det_compat.core.train import (
    DummyTrainContext,
    EarlyExitReason,
    TrainContext,
    new_tensorboard_path,
    shared_tensorboard_path,
    tensorboard_path_is,
)
from det_compat.errors import InvalidHP
from det_compat.script import own_runs
from det_compat.script.run_paths import RunPaths
from det_compat.script.task import current_task
from det_compat.shared.importing import collect_as_usual

logger = logging.getLogger("determined.core")

_Mode = TypeVar("_Mode", bound=Enum)

_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
}


class Context:
    """What a script does with its task, in parts; ``core.init()`` makes it.

    Attributes:
        checkpoint: checkpoints of the task.
        distributed: its ranks.
        preempt: whether it is to stop.
        searcher: how long it is to train.
        train: where it reports.
        profiler: samples of the machine's load.
        experimental: what a cluster's registry was told.
        info: what a cluster told of the task; None without one.
    """

    # What Determined uploaded TensorBoard files with; here, they are where they are to be.
    _tensorboard_manager: Any = None

    def __init__(
        self,
        checkpoint: CheckpointContext,
        _session: Any = None,
        distributed: DistributedContext | None = None,
        preempt: PreemptContext | None = None,
        train: TrainContext | None = None,
        searcher: SearcherContext | None = None,
        info: info.ClusterInfo | None = None,
        experimental: ExperimentalCoreContext | None = None,
        profiler: ProfilerContext | None = None,
    ) -> None:
        self.checkpoint = checkpoint
        self.distributed = distributed or DummyDistributedContext()
        self.preempt = preempt or DummyPreemptContext(self.distributed)
        self.train = train or DummyTrainContext()
        self.searcher = searcher or SearcherContextMissing()
        self.info = info
        self.experimental = experimental or DummyExperimentalCoreContext()
        self.profiler = profiler or DummyProfilerContext()
        self._running = contextlib.ExitStack()
        self._kept: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext

    def start(self) -> None:
        """Begin; ``with core.init() as core_context:`` does it.

        Raises:
            RuntimeError: it has begun.
        """
        self.preempt.start()
        path = self.train.get_tensorboard_path()
        if isinstance(path, Path):
            self._running.enter_context(tensorboard_path_is(path))
        self._running.enter_context(self._kept())

    def __enter__(self) -> Context:
        self.start()
        return self

    def alert(
        self,
        title: str | None = None,
        description: str | None = None,
        level: str | None = "info",
    ) -> None:
        """Log what a cluster would have told the webhooks of a workspace."""
        number = _LEVELS.get(level or "info", logging.INFO)
        logger.log(number, f"alert: {title or ''}: {description or ''}")

    def close(
        self,
        exc_type: type[BaseException] | None = None,
        exc_val: BaseException | None = None,
        exc_tb: types.TracebackType | None = None,
    ) -> None:
        """End."""
        self.preempt.close()
        self.preempt.ended(exc_val)
        self.profiler.off()
        self.train.close()
        self._running.__exit__(exc_type, exc_val, exc_tb)
        if exc_type is None and not self.preempt.has_preempted:
            self.checkpoint.finish()
        self.distributed.close()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: types.TracebackType | None,
    ) -> None:
        self.close(exc_type, exc_val, exc_tb)
        if isinstance(exc_val, InvalidHP):
            self.train.report_early_exit(EarlyExitReason.INVALID_HP)
            logger.info("InvalidHP detected during Trial init, converting InvalidHP to exit(0)")
            sys.exit(0)


def init(
    *,
    distributed: DistributedContext | None = None,
    checkpoint_storage: str | dict[str, Any] | None = None,
    preempt_mode: PreemptMode = PreemptMode.WorkersAskChief,
    tensorboard_mode: TensorboardMode = TensorboardMode.AUTO,
) -> Context:
    """The context of a script of the Core API, as in Determined 0.38.1 off a cluster.

    In a script that ``det-compat fit`` or ``search`` runs, checkpoints and reports go to the run's
    folder, lengths come from its config, and its search hears of validations. Elsewhere, metrics
    are kept in a folder of the run under ``runs`` here, and checkpoints are where Determined kept
    those of local training. SIGTERM preempts either.

    Args:
        distributed: the ranks, needed by a task of several slots.
        checkpoint_storage: where checkpoints are: a path, a URL of fsspec such as
            ``s3://bucket/prefix``, or a ``checkpoint_storage`` as in an experiment config.
        preempt_mode: which ranks ask whether to stop.
        tensorboard_mode: whether reported metrics go to TensorBoard files by themselves.

    Raises:
        ImportError: what the storage needs is not installed.
        TypeError: ``checkpoint_storage`` is none of these, or ``distributed`` has no ranks.
        ValueError: it cannot be used, or a task of several slots has no ranks.
    """
    collect_as_usual()
    if distributed is not None and not hasattr(distributed, "rank"):
        raise TypeError(
            f"core.init(distributed={distributed!r}): it takes a core.DistributedContext, such as "
            "core.DistributedContext.from_torch_distributed()"
        )
    task = current_task()
    if task is None:
        return _off_cluster(
            distributed,
            checkpoint_storage,
            _mode_or(PreemptMode.WorkersAskChief, preempt_mode, "preempt_mode"),
            _mode_or(TensorboardMode.AUTO, tensorboard_mode, "tensorboard_mode"),
        )
    if distributed is None and task.slots > 1:
        raise ValueError("you must provide a valid DistributedContext for a multi-slot task")
    distributed = distributed or DummyDistributedContext()
    manager = _get_storage_manager(checkpoint_storage)
    elsewhere = storage.location_of(manager, checkpoint_storage or "") if manager else None
    parts = tasks.task_parts(
        task, distributed, manager, elsewhere, preempt_mode, TensorboardMode(tensorboard_mode)
    )
    _install_stacktrace_on_sigusr1()
    return Context(distributed=distributed, info=info.get_cluster_info(), **parts)


def _mode_or(default: _Mode, given: Any, name: str) -> _Mode:
    """``given`` as a mode; off a cluster, Determined 0.38.1 takes what is none as well."""
    try:
        return type(default)(given)
    except ValueError:
        logger.warning(
            f"core.init({name}={given!r}): that is no {type(default).__name__}, and a cluster "
            f"refused it; it is taken as {default}. They are: {', '.join(map(str, type(default)))}"
        )
        return default


def _off_cluster(
    distributed: DistributedContext | None,
    checkpoint_storage: str | dict[str, Any] | None,
    preempt_mode: PreemptMode,
    tensorboard_mode: TensorboardMode,
) -> Context:
    distributed = distributed or DummyDistributedContext()
    # Processes that one launcher has started share a folder.
    is_alone = distributed.size == 1
    folder = Path.cwd() / (new_tensorboard_path() if is_alone else shared_tensorboard_path())
    context = _dummy_init(
        distributed=distributed,
        checkpoint_storage=checkpoint_storage,
        preempt_mode=preempt_mode,
    )
    context.train = KeptTrainContext(folder, folder, tensorboard_mode)
    context.preempt = preempt = SignalPreemptContext(distributed, preempt_mode)
    if distributed.rank == 0 and own_runs.are_kept(folder):
        context.checkpoint.run = RunPaths(folder)
        where = storage.location_of(context.checkpoint._storage_manager, checkpoint_storage or "")
        about = {"name": Path(sys.argv[0]).stem}
        context._kept = lambda: own_runs.kept(folder, about, where, lambda: preempt.has_preempted)
    return context


def _dummy_init(
    *,
    distributed: DistributedContext | None = None,
    checkpoint_storage: str | dict[str, Any] | None = None,
    tensorboard_path: Path | None = None,
    preempt_mode: PreemptMode = PreemptMode.WorkersAskChief,
) -> Context:
    """A context that keeps nothing but checkpoints, and is never preempted."""
    distributed = distributed or DummyDistributedContext()
    manager = _get_storage_manager(checkpoint_storage)
    if manager is None:
        base_path = str(default_base_path())
        logger.info(f"no storage_manager provided; storing checkpoints in {base_path}")
        manager = storage.SharedFSStorageManager(base_path)
    _install_stacktrace_on_sigusr1()
    return Context(
        DummyCheckpointContext(distributed, manager),
        distributed=distributed,
        preempt=DummyPreemptContext(distributed, preempt_mode),
        train=DummyTrainContext(tensorboard_path),
        searcher=DummySearcherContext(distributed),
        profiler=DummyProfilerContext(),
    )


def _get_storage_manager(
    checkpoint_storage: str | dict[str, Any] | None,
) -> storage.StorageManager | None:
    """Where a script wants its checkpoints, None if it does not say.

    Raises:
        TypeError: it is neither a path, nor a URL, nor a dictionary.
        ValueError: it cannot be used.
    """
    if checkpoint_storage is None:
        return None
    if isinstance(checkpoint_storage, dict) and checkpoint_storage["type"] == "shared_fs":
        raise ValueError(
            "Cannot configure a shared_fs checkpoint storage with a "
            "dictionary. Use a string or a configuration file."
        )
    return storage.manager_of(checkpoint_storage)


def _install_stacktrace_on_sigusr1() -> None:
    """Let SIGUSR1 print what every thread does, as in Determined 0.38.1."""
    if not hasattr(signal, "SIGUSR1"):
        return
    has_handler = callable(signal.getsignal(signal.SIGUSR1))
    # A standard error output that is not a file cannot be written to from there.
    with contextlib.suppress(io.UnsupportedOperation, AttributeError, ValueError):
        faulthandler.register(signal.SIGUSR1, file=sys.stderr, chain=has_handler)

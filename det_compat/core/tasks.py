"""``core_context`` of a script that ``det-compat fit`` or ``search`` runs."""

from __future__ import annotations

import atexit
import logging
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from det_compat.config.storage import storage_of
from det_compat.core import retention
from det_compat.core.checkpoint import CheckpointContext
from det_compat.core.distributed import DistributedContext
from det_compat.core.preempt import PreemptContext, PreemptMode, SignalPreemptContext
from det_compat.core.profiler import ProfilerContext
from det_compat.core.reports.kept import Goal, TaskTrainContext, reported_values
from det_compat.core.reports.search_line import SearchLine
from det_compat.core.searcher import (
    DummySearcherContext,
    LoggedReports,
    SearcherContext,
    SearcherContextMissing,
    SearcherMode,
    SearcherOperation,
    Unit,
    configured_length,
)
from det_compat.core.storage import CloudStorageManager, SharedFSStorageManager, StorageManager
from det_compat.core.storage.remote import is_url, local_path
from det_compat.script.ending import end_of_program, is_failure
from det_compat.script.run_paths import RunPaths
from det_compat.script.task import Task

logger = logging.getLogger("determined.core")


def task_storage(task: Task) -> StorageManager:
    """Where the config of a task wants its checkpoints: in the run's folder, if it does not say.

    Raises:
        ImportError: what a URL needs is not installed.
        ValueError: the storage cannot be used.
    """
    storage = storage_of(task.config)
    if storage.refusal:
        raise ValueError(f"checkpoint_storage cannot be used: {storage.refusal}")
    if storage.url is None:
        return SharedFSStorageManager(str(RunPaths(task.run_dir).checkpoints))
    path = local_path(storage.url) if is_url(storage.url) else Path(storage.url)
    if path is not None:
        return SharedFSStorageManager(str(path))
    return CloudStorageManager(storage.url, storage.options)


class TaskCheckpointContext(CheckpointContext):
    """Checkpoints of a run: their names are kept in its folder, from where it is resumed.

    As on a cluster, metadata have to have ``steps_completed``, and those that the config's
    ``save_trial_best`` and ``save_trial_latest`` do not want go when the script has ended.

    Args:
        dist: the ranks.
        storage_manager: where checkpoints are.
        task: the run.
        elsewhere: the path or URL that the script has chosen, if that is not the config's.
        line: to the search that runs the trial, None without one.
    """

    _needs_steps = True

    def __init__(
        self,
        dist: DistributedContext,
        storage_manager: StorageManager,
        task: Task,
        elsewhere: str | None = None,
        line: SearchLine | None = None,
    ) -> None:
        super().__init__(dist, storage_manager)
        self._task = task
        self.run = self._paths = RunPaths(task.run_dir)
        self._line = line
        self._steps: dict[str, int] = {}
        if dist.rank == 0:
            self._paths.note_storage(elsewhere)

    def at(self, steps_completed: int) -> str | None:
        """Where the checkpoint of so many batches is that this process has saved; None for none."""
        found = [name for name, steps in self._steps.items() if steps == steps_completed]
        return self._location(found[-1]) if found else None

    def finish(self) -> None:
        """Delete the checkpoints of the run that its config does not want to keep."""
        if self._dist.rank != 0:
            return
        policy = retention.RetentionPolicy.from_config(self._task.config)
        goal = Goal.of(self._task.config)
        values = {} if goal is None else dict(reported_values(self._paths.path, goal.metric))
        saved = [
            retention.SavedCheckpoint(name, steps, values.get(steps))
            for name in self._paths.begun_checkpoints()
            if (steps := self._steps_of(name)) is not None
        ]
        for name in retention.to_delete(saved, policy):
            self.delete(name)

    def _steps_of(self, name: str) -> int | None:
        if name in self._steps:
            return self._steps[name]
        if self._storage_manager.metadata(name) is None:
            return None
        steps = self.get_metadata(name).get("steps_completed")
        return steps if isinstance(steps, int) else None

    def _report_checkpoint(
        self,
        storage_id: str,
        resources: dict[str, int] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        super()._report_checkpoint(storage_id, resources, metadata)
        self._steps[storage_id] = steps = (metadata or {})["steps_completed"]
        if self._line is not None:
            self._line.saved(steps, self._location(storage_id))

    def _report_checkpoint_deleted(
        self, storage_id: str, resources: dict[str, int] | None = None
    ) -> None:
        super()._report_checkpoint_deleted(storage_id, resources)
        self._steps.pop(storage_id, None)


class TaskPreemptContext(SignalPreemptContext):
    """Preempts a task by SIGTERM, and a trial when its search stops it."""

    def __init__(
        self,
        dist: DistributedContext,
        preempt_mode: PreemptMode,
        line: SearchLine | None,
        paths: RunPaths,
    ) -> None:
        super().__init__(dist, preempt_mode)
        self._line = line
        self._paths = paths

    def acknowledge_preemption_signal(self) -> None:
        """Note that the run ends, and is not done."""
        if self._dist.get_rank() == 0:
            self._paths.preempted.touch()

    def start(self) -> PreemptContext:
        super().start()
        self._paths.begin_process()
        # Scripts need not close what they have begun.
        atexit.register(self._ended_unclosed)
        return self

    def _ended_unclosed(self) -> None:
        self.ended(end_of_program())

    def ended(self, error: BaseException | None) -> None:
        """Note that this process has ended in good order, which it has not where it has failed."""
        atexit.unregister(self._ended_unclosed)
        if not is_failure(error):
            self._paths.end_process()

    def _is_preempted(self) -> bool:
        return super()._is_preempted() or (self._line is not None and self._line.is_stopped)


class _Operation(LoggedReports):
    """The operation of a task, whose progress tells how much is trained, in the config's unit.

    Scripts report it before a validation or after it. What was reported and is more than at the
    validation before counts for the one that comes next; a validation without such a report waits
    for the next one, or for the end of the operation. One that is followed by what was trained
    before it tells that the script reports the index of each epoch, from 0, at its end.

    Args:
        length: the length of the operation.
        unit: what it counts; None if the config does not say.
        trained: how much of it the task has trained before it goes on.
    """

    def __init__(self, length: int | None, unit: Unit | None, trained: float = 0.0) -> None:
        self._whole = length
        self._unit = unit
        self._goes_on = self._has_warned = False
        self._reported = self._counted = trained
        self._short = 0  # what reports lack of the number of epochs
        self._steps: int | None = None
        self._waiting: list[Callable[[dict[str, Any]], None]] = []

    def begin(self) -> None:
        """The script has asked how long to train."""
        self._goes_on = True

    def progress(self, length: float, whole: int) -> None:
        super().progress(length, whole)
        if self._waiting and length == self._counted and self._steps != 0:
            self._short = 1
        self._count(length + self._short)

    def completed(self, searcher_metric: Any) -> None:
        super().completed(searcher_metric)
        self._goes_on = False
        self._count(self._whole or 0)

    def _count(self, length: float) -> None:
        self._reported = length
        if length > self._counted and self._waiting:
            waiting, self._waiting = self._waiting, []
            for tell in waiting:
                self._tell(tell)

    def once_counted(self, steps: int, tell: Callable[[dict[str, Any]], None]) -> None:
        """Call ``tell`` with how much is trained, by the name of the unit, once that is known."""
        again, self._steps = steps == self._steps, steps
        if self._waiting and not again:
            self._waiting = []
            if not self._has_warned:
                logger.warning(
                    "the search hears of validations at the end of the operation only: it counts "
                    "in epochs. Report them as the metric epochs, or by op.report_progress()"
                )
            self._has_warned = True
        is_known = self._reported > self._counted or (again and not self._waiting)
        if self._unit is not None and is_known and self._reported > 0:
            self._tell(tell)
        elif self._goes_on and self._unit is Unit.EPOCHS:
            self._waiting.append(tell)
        else:
            tell({})

    def _tell(self, tell: Callable[[dict[str, Any]], None]) -> None:
        self._counted = max(self._reported, self._counted)
        assert self._unit is not None
        tell({self._unit.name.lower(): self._counted})


class _TaskSearcher(DummySearcherContext):
    """The searcher of a task, which lets its operation know that it is asked for."""

    def __init__(
        self, dist: DistributedContext, length: int, unit: Unit | None, operation: _Operation
    ) -> None:
        super().__init__(dist, length, units=unit, reports=operation)
        self._own = operation

    def _operations_of_chief(self, mode: SearcherMode) -> Iterator[SearcherOperation]:
        self._own.begin()
        yield from super()._operations_of_chief(mode)


def task_parts(
    task: Task,
    distributed: DistributedContext,
    storage_manager: StorageManager | None,
    elsewhere: str | None,
    preempt_mode: PreemptMode,
    tensorboard_mode: Any,
) -> dict[str, Any]:
    """The parts of the context of ``task``, by the names that ``Context`` has for them.

    Args:
        task: the run.
        distributed: the ranks.
        storage_manager: where the script wants its checkpoints; None for where the config does.
        elsewhere: the path or URL that the script wants them at; None if it does not say.
        preempt_mode: who asks whether to stop.
        tensorboard_mode: whether metrics go to TensorBoard files by themselves.

    Raises:
        ImportError: what the config's storage needs is not installed.
        ValueError: the config's storage cannot be used.
    """
    line = None if task.search is None or distributed.rank != 0 else SearchLine(task.search)
    checkpoint = TaskCheckpointContext(
        distributed, storage_manager or task_storage(task), task, elsewhere, line
    )
    preempt = TaskPreemptContext(distributed, preempt_mode, line, RunPaths(task.run_dir))
    length, unit = configured_length(task.config)
    operation = _Operation(length, unit, task.epochs_completed)
    train = TaskTrainContext(
        Path(task.run_dir),
        Goal.of(task.config),
        tensorboard_mode,
        line=line,
        once_counted=operation.once_counted,
        checkpoint_at=checkpoint.at,
        asks=lambda: preempt.has_asked,
    )
    searcher: SearcherContext = SearcherContextMissing()
    if length:
        searcher = _TaskSearcher(distributed, length, unit, operation)
    return {
        "checkpoint": checkpoint,
        "preempt": preempt,
        "searcher": searcher,
        "train": train,
        "profiler": ProfilerContext(socket.gethostname(), train.measured, distributed),
    }

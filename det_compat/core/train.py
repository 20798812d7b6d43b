"""Metric reports of a task."""

import contextlib
import copy
import datetime
import enum
import itertools
import logging
import os
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

logger = logging.getLogger("determined.core")


class EarlyExitReason(enum.Enum):
    """Why a trial stopped before its end."""

    INVALID_HP = "EXITED_REASON_INVALID_HP"
    USER_REQUESTED_STOP = "EXITED_REASON_USER_REQUESTED_STOP"


class TrainContext:
    """Logs what a task reports, in the form in which Determined 0.38.1 logs it off a cluster.

    Args:
        tensorboard_path: the directory of the task's TensorBoard files; None for none.
    """

    def __init__(self, tensorboard_path: Path | None = None) -> None:
        self.tensorboard_path = tensorboard_path
        self._metadata: dict[str, Any] | None = None

    def set_status(self, status: str) -> None:
        """Log what the task is doing."""
        logger.info(f"status: {status}")

    def set_metadata(self, metadata: dict[str, Any]) -> dict[str, Any] | None:
        """Set the metadata of the run, in place of what was set before; returns it."""
        logger.info(f"set_metadata({metadata})")
        self._metadata = copy.deepcopy(metadata)
        return self.get_metadata()

    def get_metadata(self) -> dict[str, Any] | None:
        """The metadata of the run, None if none was set."""
        return copy.deepcopy(self._metadata)

    def report_training_metrics(
        self,
        steps_completed: int,
        metrics: dict[str, Any],
        batch_metrics: list[dict[str, Any]] | None = None,
    ) -> None:
        """Report the training metrics of a period, ``steps_completed`` batches into the run."""
        logger.info(
            f"report_training_metrics(steps_completed={steps_completed}, metrics={metrics})"
        )
        self._report("training", steps_completed, metrics, batch_metrics)

    def report_validation_metrics(self, steps_completed: int, metrics: dict[str, Any]) -> None:
        """Report the metrics of a validation, ``steps_completed`` batches into the run."""
        logger.info(
            f"report_validation_metrics(steps_completed={steps_completed}, metrics={metrics})"
        )
        self._report("validation", steps_completed, metrics, None)

    def report_metrics(self, group: str, steps_completed: int, metrics: dict[str, Any]) -> None:
        """Report metrics of a group: "training", "validation", or one of the user's own."""
        logger.info(
            f"report_metrics(group={group}, steps_completed={steps_completed}, metrics={metrics})"
        )
        self._report(group, steps_completed, metrics, None)

    def _report(
        self,
        group: str,
        steps_completed: int,
        metrics: dict[str, Any],
        batch_metrics: list[dict[str, Any]] | None,
    ) -> None:
        """Keep what was reported; here, nothing is kept."""

    def report_progress(self, progress: float) -> None:
        """Log the share of the training that is done, between 0 and 1."""
        logger.info(f"report_progress with progress={progress}")

    def report_early_exit(self, reason: EarlyExitReason) -> None:
        """Log why the trial stops before its end."""
        logger.info(f"report_early_exit({reason})")

    def get_experiment_best_validation(self) -> float | None:
        """Return None: there is no experiment to compare with."""
        return None

    def get_tensorboard_path(self) -> Path:
        """The directory of the task's TensorBoard files.

        As in Determined 0.38.1, a context that was made without one has None.
        """
        return self.tensorboard_path  # type: ignore[return-value]  # This is Determined's type.

    def upload_tensorboard_files(
        self,
        selector: Callable[[Path], bool] = lambda _: True,
        mangler: Callable[[Path, int], Path] = lambda path, _: path,
    ) -> None:
        """Log the call: the files are on this machine."""
        logger.info("upload_tensorboard_files()")

    def close(self) -> None:
        """Finish what was kept."""


class DummyTrainContext(TrainContext):
    """A context that logs, and keeps nothing."""


_active: list[Path] = []
_shared_runs = itertools.count()


def new_tensorboard_path() -> Path:
    """A directory under ``./runs`` for a run that starts now; nothing is created yet."""
    # The name has microseconds, because a script may start several runs in a second.
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S-%f")
    return Path("runs") / f"{stamp}-{socket.gethostname()}-{os.getpid()}"


def shared_tensorboard_path() -> Path:
    """As ``new_tensorboard_path``, the same one for all processes that one launcher has started."""
    name = f"{socket.gethostname()}-{os.getppid()}-{next(_shared_runs)}"
    return Path("runs") / name


def current_tensorboard_path() -> Path:
    """The directory of the innermost run in this process, a new one if none is going on."""
    return _active[-1] if _active else new_tensorboard_path()


@contextlib.contextmanager
def tensorboard_path_is(path: Path) -> Iterator[None]:
    """Make ``path`` the current directory of TensorBoard files for the enclosed run."""
    _active.append(path)
    try:
        yield
    finally:
        _active.remove(path)

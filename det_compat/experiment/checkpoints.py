"""The checkpoints of one run, which may share their storage with those of others."""

import contextlib
import logging
import shlex
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from det_compat.checkpoint.reader import read_checkpoint, trusts_checkpoints
from det_compat.config.storage import CheckpointStorage, storage_of
from det_compat.core.storage.local import is_unfinished
from det_compat.core.store import CheckpointStore, CompleteCheckpoint
from det_compat.errors import InvalidCheckpointException, UnsafeCheckpointError
from det_compat.experiment.errors import FitError
from det_compat.experiment.run_folder import RunFolder
from det_compat.script.task import Task

logger = logging.getLogger("determined.core")

#: The key of a checkpoint's metadata that says which run has written it.
RUN = "det_compat_run"


class RunCheckpoints(CheckpointStore):
    """Where a run's checkpoints lie, and which of those there are its own.

    Args:
        base_path: a directory, or a URL of fsspec.
        run: the run's folder, which keeps the UUID of every checkpoint that is begun.
        storage_options: arguments of the fsspec filesystem.
        are_all_own: whether no other run has its checkpoints here, whatever ``names`` has.
    """

    def __init__(
        self,
        base_path: str,
        run: RunFolder,
        storage_options: dict[str, Any] | None = None,
        *,
        are_all_own: bool = False,
    ) -> None:
        super().__init__(base_path, storage_options, run)
        self._folder = run
        self._are_all_own = are_all_own

    def _about(self) -> dict[str, Any]:
        about = self._folder.about()
        return {RUN: about} if about else {}

    def delete_unfinished(self) -> None:
        """Remove what interrupted processes of this run have left of checkpoints.

        What cannot be removed stays, with a warning: it is told apart from checkpoints. So does a
        directory that has lost its ``metadata.json``, and may have all else.
        """
        begun = self._folder.begun_checkpoints()
        for name in self.unfinished():
            directory = Path(self.location(name))
            if directory.is_dir() and not is_unfinished(directory):
                logger.warning(f"{directory} has no metadata.json: it is left as it is")
            # Scripts may have other things here, too, under names of their own.
            elif name in begun or (self._are_all_own and self._storage.is_unfinished(name)):
                try:
                    self.delete(name)
                except OSError as error:
                    logger.warning(f"cannot remove the unfinished {self.location(name)}: {error}")

    def take_in(self) -> None:
        """Take checkpoints for the run's own that it has written on another machine, too."""
        own = self._folder.about().get("id")
        begun = {*self._folder.begun_checkpoints()}
        for found in self.list() if own is not None and not self._are_all_own else ():
            about = found.metadata.get(RUN)
            is_own = isinstance(about, dict) and about.get("id") == own
            if is_own and found.uuid not in begun:
                self._folder.begin_checkpoint(found.uuid)

    def latest_of_run(self) -> CompleteCheckpoint | None:
        """The run's own complete checkpoint after most batches; None without any."""
        return next(iter(self.of_run()), None)

    def whole_beside(self, damaged: str) -> CompleteCheckpoint | None:
        """The latest of the run's own checkpoints that can be read, but for ``damaged``, if any."""
        others = (found for found in self.of_run() if found.uuid != damaged)
        return next(filter(self._is_whole, others), None)

    def of_run(self) -> list[CompleteCheckpoint]:
        """The run's own complete checkpoints, the one after most batches first."""
        names = [*self._folder.begun_checkpoints()]
        if self._are_all_own:  # The list of those that were begun may have been lost.
            names = [found.uuid for found in self.list() if found.uuid not in names] + names
        complete = [found for name in names if (found := self.complete(name)) is not None]
        # Of equal ones, the last that was begun is the latest.
        return sorted(complete, key=CompleteCheckpoint.age)[::-1]

    def _is_whole(self, checkpoint: CompleteCheckpoint) -> bool:
        try:
            read_checkpoint(self.find(checkpoint.uuid), trust=trusts_checkpoints())
        except (InvalidCheckpointException, OSError):
            return False
        return True


def checkpoints_of(storage: CheckpointStorage, folder: RunFolder) -> RunCheckpoints:
    """The checkpoints of the run in ``folder``, where the config wants them.

    Raises:
        FitError: the storage cannot be used.
    """
    base_path, options = storage.url or str(folder.checkpoints), storage.options
    if chosen := folder.chosen_storage():
        # A script has its checkpoints where it likes.
        base_path, options = chosen, {}
    try:
        is_own = storage.url is None and not chosen
        return RunCheckpoints(base_path, folder, options, are_all_own=is_own)
    except (ImportError, ValueError) as error:
        raise FitError(f"checkpoint_storage cannot be used: {error}") from error


@contextlib.contextmanager
def earlier_one_named(
    latest: str | None, checkpoints: Callable[[], RunCheckpoints], command: str
) -> Iterator[None]:
    """Where the checkpoint that a run goes on from is damaged, name an earlier one that is whole.

    Args:
        latest: the checkpoint's UUID; None if the run goes on from none, or another process says.
        checkpoints: returns those of the run.
        command: what goes on with the run from its latest checkpoint.

    Raises:
        InvalidCheckpointException: as the block did, with what to do.
    """
    try:
        yield
    except UnsafeCheckpointError:
        # Without trust, another checkpoint of the run asks for the same.
        raise
    except InvalidCheckpointException as error:
        if latest is not None and latest in str(error):
            error.args = (f"{error}\n{_without(latest, checkpoints(), command)}",)
        raise


def _without(damaged: str, checkpoints: RunCheckpoints, command: str) -> str:
    """What to do where a checkpoint is damaged."""
    location = checkpoints.location(damaged)
    is_local = isinstance(checkpoints.base_path, Path)
    away = f"mv {shlex.quote(location)} {shlex.quote(location + '.damaged')}"
    move = f"\n  {away}\n" if is_local else f" move {location} away, then\n"
    start = "no other checkpoint of the run is whole; to train from the beginning:"
    if whole := checkpoints.whole_beside(damaged):
        where = checkpoints.location(whole.uuid)
        start = f"{where}, after batch {whole.steps_completed}, is whole; to go on from it:"
    return f"{start}{move}  {command}"


def task_checkpoints(task: Task) -> RunCheckpoints:
    """The checkpoints of the run that a script is.

    Raises:
        FitError: the storage cannot be used.
    """
    return checkpoints_of(storage_of(task.config), RunFolder(task.run_dir))

"""The checkpoints of one run, which may share their storage with those of others."""

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from det_compat.config.document import Problems, from_mapping
from det_compat.config.storage import CheckpointStorage, parse_storage
from det_compat.core.checkpoint import CheckpointContext, CompleteCheckpoint
from det_compat.core.storage.local import is_unfinished
from det_compat.fit.errors import FitError
from det_compat.fit.run_folder import RunFolder
from det_compat.script.task import Task

logger = logging.getLogger("determined.core")


class RunCheckpoints(CheckpointContext):
    """Where a run's checkpoints lie, and which of those there are its own.

    Args:
        base_path: a directory, or a URL of fsspec.
        names: a file that gets the UUID of every checkpoint that is begun.
        storage_options: arguments of the fsspec filesystem.
        are_all_own: whether no other run has its checkpoints here, whatever ``names`` has.
    """

    def __init__(
        self,
        base_path: str,
        names: Path,
        storage_options: dict[str, Any] | None = None,
        *,
        are_all_own: bool = False,
    ) -> None:
        super().__init__(base_path, storage_options)
        self._names = names
        self._are_all_own = are_all_own

    @contextlib.contextmanager
    def store_path(self, metadata: dict[str, Any]) -> Iterator[tuple[Path, str]]:
        with super().store_path(metadata) as (path, uuid):
            self._names.parent.mkdir(parents=True, exist_ok=True)
            with self._names.open("a", encoding="utf-8") as file:
                file.write(f"{uuid}\n")
            yield path, uuid

    def delete_unfinished(self) -> None:
        """Remove what interrupted processes of this run have left of checkpoints.

        What cannot be removed stays, with a warning: it is told apart from checkpoints. So does a
        directory that has lost its ``metadata.json``, and may have all else.
        """
        begun = self._begun()
        for name in self.unfinished():
            directory = Path(self.location(name))
            if directory.is_dir() and not is_unfinished(directory):
                logger.warning(f"{directory} has no metadata.json: it is left as it is")
            elif self._are_all_own or name in begun:
                try:
                    self.delete(name)
                except OSError as error:
                    logger.warning(f"cannot remove the unfinished {self.location(name)}: {error}")

    def _begun(self) -> list[str]:
        if not self._names.exists():
            return []
        return self._names.read_text("utf-8", errors="replace").split()

    def latest_of_run(self) -> CompleteCheckpoint | None:
        """The run's own complete checkpoint after most batches; None without any."""
        if self._are_all_own:
            return self.latest()
        complete = [found for name in self._begun() if (found := self.complete(name)) is not None]
        return max(complete, key=CompleteCheckpoint.age, default=None)


def checkpoints_of(storage: CheckpointStorage, folder: RunFolder) -> RunCheckpoints:
    """The checkpoints of the run in ``folder``, where the config wants them.

    Raises:
        FitError: the storage cannot be used.
    """
    base_path = storage.url or str(folder.checkpoints)
    try:
        return RunCheckpoints(
            base_path, folder.checkpoint_names, storage.options, are_all_own=storage.url is None
        )
    except (ImportError, ValueError) as error:
        raise FitError(f"checkpoint_storage cannot be used: {error}") from error


def task_checkpoints(task: Task) -> RunCheckpoints:
    """The checkpoints of the run that a script is.

    Raises:
        FitError: the storage cannot be used.
    """
    problems = Problems(from_mapping(task.config))
    return checkpoints_of(parse_storage(task.config, problems), RunFolder(task.run_dir))

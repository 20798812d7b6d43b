"""Checkpoints in directories of this machine."""

import contextlib
import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from det_compat.shared.durable_files import replace_durably, sync, sync_tree, write_durably

METADATA = "metadata.json"

#: A checkpoint has this file while it is written or deleted. It becomes ``metadata.json``, or was.
UNFINISHED = "metadata.json.partial"


class LocalStorage:
    """A directory with one sub-directory a checkpoint.

    A checkpoint is complete once its ``metadata.json`` is there, which is written last, when
    everything else is on the disk, and removed first.
    """

    def __init__(self, base: Path) -> None:
        self.base = base

    def location(self, storage_id: str) -> str:
        """Where a checkpoint is or would be, for messages."""
        return str(self.base / storage_id)

    def begin(self, storage_id: str) -> Path:
        """Make the directory that a new checkpoint is written into: its final one."""
        path = self.base / storage_id
        path.mkdir(parents=True)
        (path / UNFINISHED).touch()
        sync(path)
        sync(self.base)
        return path

    def commit(self, storage_id: str, metadata: str) -> None:
        """Make a checkpoint complete."""
        path = self.base / storage_id
        sync_tree(path)
        write_durably(path / METADATA, metadata, temporary=path / UNFINISHED)

    def discard(self, storage_id: str) -> None:
        """Remove what was begun, as far as that is possible."""
        with contextlib.suppress(OSError):
            _remove_checkpoint(self.base / storage_id, OSError)

    def delete(self, storage_id: str) -> None:
        """Remove a checkpoint; killed in between, it leaves an unfinished one."""
        if (path := self.base / storage_id).is_symlink():
            path.unlink()
        else:
            _remove_checkpoint(path)

    def metadata(self, storage_id: str) -> bytes | None:
        """The content of a checkpoint's ``metadata.json``, None if there is none."""
        try:
            return (self.base / storage_id / METADATA).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None

    def names(self) -> list[str]:
        """What lies in the directory, finished or not."""
        try:
            return sorted(os.listdir(self.base))
        except FileNotFoundError:
            return []

    def exists(self, storage_id: str) -> bool:
        """Whether anything is there under that name."""
        return os.path.lexists(self.base / storage_id)

    def is_unfinished(self, storage_id: str) -> bool:
        """Whether a checkpoint was not finished, or is half deleted."""
        path = self.base / storage_id
        return path.is_dir() and is_unfinished(path)

    def fetch(self, storage_id: str) -> Path:
        """The directory of a checkpoint."""
        return self.base / storage_id


def is_complete(metadata: Callable[[], bytes | None]) -> bool:
    """Whether a checkpoint has metadata; a folder of their name is what a user has put there.

    Raises:
        OSError: it cannot be found out.
    """
    try:
        return metadata() is not None
    except IsADirectoryError:
        return False


def write_beside(directory: Path, metadata: dict[str, Any]) -> None:
    """Write the metadata of a checkpoint into a directory of the user's, which is uploaded then.

    Raises:
        OSError: it cannot be written; the directory is as it was.
    """
    path, temporary = directory / METADATA, directory / UNFINISHED
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    try:
        write_durably(path, json.dumps(metadata, indent=2), temporary=temporary)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def _remove_checkpoint(path: Path, *ignored: type[Exception]) -> None:
    """Remove a directory, marked as unfinished until nothing else is left in it."""
    if (path / METADATA).is_file():
        replace_durably(path / METADATA, path / UNFINISHED)
    for child in _content(path):
        with contextlib.suppress(*ignored):
            if child.is_dir() and not child.is_symlink():
                shutil.rmtree(child)
            else:
                child.unlink()
    if not _content(path):
        (path / UNFINISHED).unlink(missing_ok=True)
    path.rmdir()


def _content(path: Path) -> list[Path]:
    return [child for child in path.iterdir() if child.name != UNFINISHED]


def is_unfinished(directory: Path) -> bool:
    """Whether a directory holds a checkpoint that was not finished or is half deleted."""
    if (directory / METADATA).is_file():
        return False
    return (directory / UNFINISHED).exists() or not any(directory.iterdir())

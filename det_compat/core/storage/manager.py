"""The interface of Determined's storage managers: places with named directories."""

from __future__ import annotations

import abc
import contextlib
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from det_compat.core.storage.local import UNFINISHED

__all__ = ["Paths", "Selector", "StorageManager", "normalize_prefix"]

Paths = set[str]
#: Told a path below the checkpoint, with a "/" at the end of directories; whether it is wanted.
Selector = Callable[[str], bool]

_UP = (r"^.*\/\.\.\/.*$", r"^\.\.\/.*", r".*\/\.\.$", r"^\.\.$")


class StorageManager(abc.ABC):
    """A place with named directories, which are checkpoints.

    Args:
        base_path: a directory of this machine: where they are, or where copies of them are made.

    Raises:
        ValueError: it is no string, or an empty one.
    """

    def __init__(self, base_path: str) -> None:
        if not isinstance(base_path, str):
            raise ValueError(f"base_path must be a string, not {type(base_path).__name__}")
        if not base_path:
            raise ValueError("base_path must not be an empty string")
        self._base_path = base_path

    @classmethod
    def from_config(cls, config: dict[str, Any], container_path: str | None) -> StorageManager:
        """A manager for the keys of a ``checkpoint_storage``, without its type."""
        return cls(**config)

    def location(self, storage_id: str) -> str:
        """Where a directory is or would be, for messages."""
        return os.path.join(self._base_path, storage_id)

    def pre_store_path(self, dst: str) -> Path:
        """Make the directory of this machine that ``dst`` is written into.

        It has a file ``metadata.json.partial`` until what is written is complete.
        """
        path = Path(self._base_path, dst)
        path.mkdir(parents=True, exist_ok=True)
        (path / UNFINISHED).touch()
        return path

    @abc.abstractmethod
    def post_store_path(
        self, src: str | os.PathLike[str], dst: str, paths: set[str] | None = None
    ) -> None:
        """Store what was written into the directory ``src``: all of it, or ``paths``."""

    @contextlib.contextmanager
    def store_path(self, dst: str) -> Iterator[Path]:
        """Yield a directory of this machine, and store as ``dst`` what was written into it."""
        path = self.pre_store_path(dst)
        yield path
        self.post_store_path(path, dst)

    @abc.abstractmethod
    def discard(self, dst: str) -> None:
        """Remove what was begun by ``pre_store_path``, as far as that is possible."""

    @abc.abstractmethod
    def store_path_is_direct_access(self) -> bool:
        """Whether several processes write into one directory: conflicts cannot be found then."""

    @abc.abstractmethod
    def restore_path(
        self, src: str, selector: Selector | None = None
    ) -> contextlib.AbstractContextManager[Path]:
        """Yield a directory of this machine with the content of ``src``.

        Raises:
            CheckpointNotFound: there is none.
        """

    @abc.abstractmethod
    def upload(self, src: str | os.PathLike[str], dst: str, paths: Paths | None = None) -> None:
        """Store the content of a directory as ``dst``: all of it, or ``paths``."""

    @abc.abstractmethod
    def download(
        self, src: str, dst: str | os.PathLike[str], selector: Selector | None = None
    ) -> None:
        """Copy what ``selector`` wants of ``src`` into a directory of this machine.

        Raises:
            CheckpointNotFound: there is none.
        """

    @abc.abstractmethod
    def delete(self, tgt: str, globs: list[str]) -> dict[str, int]:
        """Delete what the globs match in ``tgt``; what is left, with the sizes of files.

        ``**/*`` deletes all of it.
        """

    @abc.abstractmethod
    def metadata(self, storage_id: str) -> bytes | None:
        """The content of a checkpoint's ``metadata.json``, None if there is none."""

    @staticmethod
    def _list_directory(root: str | os.PathLike[str]) -> dict[str, int]:
        """The files below ``root``, with their sizes, and its directories, with a "/" and 0.

        Raises:
            FileNotFoundError: there is no such directory.
            NotADirectoryError: it is a file.
        """
        root = os.fspath(root)
        if not os.path.exists(root):
            raise FileNotFoundError(root)
        if not os.path.isdir(root):
            raise NotADirectoryError(root)
        found = {}
        for folder, folders, files in os.walk(root):
            inside = os.path.relpath(folder, root)
            for name in folders:
                found[os.path.normpath(os.path.join(inside, name)) + "/"] = 0
            for name in files:
                path = os.path.normpath(os.path.join(inside, name))
                if path != UNFINISHED:
                    found[path] = os.path.getsize(os.path.join(folder, name))
        return found


def normalize_prefix(prefix: str | None) -> str:
    """A prefix of an object store without slashes around it.

    Raises:
        ValueError: it has ``..`` in it.
    """
    if not prefix:
        return ""
    if any(re.match(pattern, prefix) for pattern in _UP):
        raise ValueError(f"prefix must not match: {' '.join(_UP)}")
    return os.path.normpath(prefix).lstrip("/")

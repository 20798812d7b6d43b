"""Storage managers of directories on this machine, or that it sees as its own."""

from __future__ import annotations

import contextlib
import glob
import logging
import os
import shutil
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from det_compat.common.check import CheckFailedError
from det_compat.core.storage.local import METADATA, UNFINISHED, LocalStorage, is_unfinished
from det_compat.core.storage.manager import Paths, Selector, StorageManager
from det_compat.errors import CheckpointNotFound, UnfinishedCheckpointError
from det_compat.shared.durable_files import sync, sync_tree

logger = logging.getLogger("determined.common.storage.shared")


class SharedFSStorageManager(StorageManager):
    """Directories in ``base_path``, as ``checkpoint_storage`` of type ``shared_fs`` has them."""

    _KEYS = frozenset({"host_path", "storage_path", "container_path", "propagation"})
    _NEEDED = "host_path"
    _KIND = "shared_fs"

    def __init__(self, base_path: str) -> None:
        super().__init__(base_path)
        # A script may change its working directory.
        self._base_path = os.path.abspath(base_path)

    @classmethod
    def from_config(
        cls, config: dict[str, Any], container_path: str | None
    ) -> SharedFSStorageManager:
        """A manager for the keys of a ``checkpoint_storage``.

        Args:
            config: the keys, without the type.
            container_path: what stands for ``host_path`` in a container.

        Raises:
            CheckFailedError: a key is missing or not known, or a path is outside of ``host_path``.
        """
        cls._check(config)
        return cls(
            full_storage_path(config["host_path"], config.get("storage_path"), container_path)
        )

    @classmethod
    def _check(cls, config: dict[str, Any]) -> None:
        for key in config.keys() - cls._KEYS:
            raise CheckFailedError(f"{key}: extra key in {cls._KIND} config")
        if cls._NEEDED not in config:
            raise CheckFailedError(f"{cls._KIND} config is missing {cls._NEEDED}")

    def post_store_path(
        self, src: str | os.PathLike[str], dst: str, paths: set[str] | None = None
    ) -> None:
        path = Path(src)
        if (path / UNFINISHED).exists():
            sync_tree(path)
            (path / UNFINISHED).unlink()
            sync(path)

    def discard(self, dst: str) -> None:
        self._local().discard(dst)

    def store_path_is_direct_access(self) -> bool:
        return True

    @contextlib.contextmanager
    def restore_path(self, src: str, selector: Selector | None = None) -> Iterator[Path]:
        if selector is not None:
            logger.warning(
                f"Ignoring partial checkpoint download from {self._KIND}; all files will be "
                f"directly accessible from {self._KIND}."
            )
        yield self._found(src)

    def _found(self, name: str) -> Path:
        path = Path(self._base_path, name)
        if not path.exists():
            raise CheckpointNotFound(
                f"Did not find checkpoint {name} in {self._KIND} storage: there is no {path}"
            )
        if is_unfinished(path):
            raise UnfinishedCheckpointError(
                f"checkpoint {path} is not complete: the run was interrupted while it wrote it, or "
                "deleted it. Use an earlier checkpoint"
            )
        return path

    def upload(self, src: str | os.PathLike[str], dst: str, paths: Paths | None = None) -> None:
        def is_wanted(path: str) -> bool:
            return path != METADATA and (paths is None or path in paths)

        target = Path(self._base_path, dst)
        # Its metadata come last: the checkpoint is complete then.
        copytree(os.fspath(src), str(target), is_wanted)
        metadata = Path(src, METADATA)
        if metadata.exists() and (paths is None or METADATA in paths):
            target.mkdir(parents=True, exist_ok=True)
            sync_tree(target)
            shutil.copy2(metadata, target / UNFINISHED)
            sync(target / UNFINISHED)
            os.replace(target / UNFINISHED, target / METADATA)
        if target.is_dir():
            sync(target)

    def download(
        self, src: str, dst: str | os.PathLike[str], selector: Selector | None = None
    ) -> None:
        copytree(str(self._found(src)), os.fspath(dst), selector)

    def delete(self, tgt: str, globs: list[str]) -> dict[str, int]:
        path = Path(self._base_path, tgt)
        if not path.exists():
            logger.info(f"Storage directory does not exist: {path}")
            return {}
        if not path.is_dir():
            raise CheckpointNotFound(f"Storage path is not a directory: {path}")
        if "**/*" in globs:
            self._local().delete(tgt)
            return {}
        for found in _matched(path, globs):
            if found.is_dir() and not found.is_symlink():
                shutil.rmtree(found)
            elif found.is_symlink() or found.exists():
                found.unlink()
        left = self._list_directory(path)
        if not left:
            self._local().delete(tgt)
        return left

    def metadata(self, storage_id: str) -> bytes | None:
        return self._local().metadata(storage_id)

    def _local(self) -> LocalStorage:
        return LocalStorage(Path(self._base_path))


class DirectoryStorageManager(SharedFSStorageManager):
    """Directories in ``container_path``, as type ``directory`` has them."""

    _KEYS = frozenset({"container_path"})
    _NEEDED = "container_path"
    _KIND = "directory"

    @classmethod
    def from_config(
        cls, config: dict[str, Any], container_path: str | None = None
    ) -> DirectoryStorageManager:
        cls._check(config)
        return cls(config["container_path"])


def _matched(root: Path, globs: list[str]) -> list[Path]:
    """What globs match below ``root``, files first; what is outside is left out, with a warning."""
    found: dict[Path, None] = {}
    for pattern in globs:
        for match in glob.glob(f"{glob.escape(str(root))}/{pattern}", recursive=True):
            path = os.path.normpath(match)
            if os.path.commonpath([root, path]) != str(root):
                logger.warning(f"tried to delete path outside checkpoint dir {match}")
            elif path != str(root):
                found[Path(path)] = None
    return sorted(found, key=lambda path: path.is_dir())


def copytree(
    src: str, dst: str, selector: Selector | None = None, src_root: str | None = None
) -> str:
    """Copy what ``selector`` wants of a directory; returns ``dst``.

    Directories are made where something in them, or they themselves, are wanted. Links are
    followed.

    Args:
        src: the directory.
        dst: where to.
        selector: told each path below ``src_root``, with a "/" at the end of directories.
        src_root: what the paths are relative to, by default ``src``.

    Raises:
        FileNotFoundError: there is no such directory.
    """
    root = src if src_root is None else src_root
    wanted = selector or (lambda path: True)
    with os.scandir(src) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            relative = os.path.relpath(entry.path, root)
            target = os.path.join(dst, entry.name)
            if entry.is_dir():
                if wanted(relative + "/"):
                    os.makedirs(target, exist_ok=True)
                copytree(entry.path, target, selector, root)
            elif relative != UNFINISHED and wanted(relative):
                os.makedirs(dst, exist_ok=True)
                shutil.copy2(entry.path, target)
    return dst


def full_storage_path(
    host_path: str, storage_path: str | None = None, container_path: str | None = None
) -> str:
    """The directory of a ``shared_fs``: ``storage_path`` in ``host_path``, or in its stand-in.

    Raises:
        CheckFailedError: a path is not absolute, or outside of ``host_path``.
    """
    if not os.path.isabs(host_path):
        raise CheckFailedError(f"`host_path` must be an absolute path.  Got {host_path!r}")
    root = host_path if container_path is None else container_path
    if storage_path is None:
        return root
    path = os.path.normpath(os.path.join(host_path, storage_path))
    if not path.startswith(host_path):
        raise CheckFailedError(
            f"storage path must be a subdirectory of host path.  Got {path!r} and {host_path!r}"
        )
    return os.path.join(root, os.path.relpath(path, host_path))


def shortcut_to_config(shortcut: str, on_cluster: bool = True) -> dict[str, Any]:
    """The ``checkpoint_storage`` that a path or URL stands for.

    Raises:
        NotImplementedError: it is another kind of URL.
        ValueError: it has parameters, a query or a fragment.
    """
    parts = urllib.parse.urlparse(shortcut)
    if parts.params or parts.query or parts.fragment:
        raise ValueError(f'Malformed checkpoint_storage string "{shortcut}"')
    scheme = parts.scheme.lower()
    if scheme in ("", "file"):
        if on_cluster:
            return {"type": "shared_fs", "host_path": parts.path}
        return {"type": "directory", "container_path": parts.path}
    kinds = {"s3": "s3", "gs": "gcs"}
    if scheme not in kinds:
        raise NotImplementedError("only shared_fs, s3, and gs storage shortcuts are supported")
    return {"type": kinds[scheme], "bucket": parts.netloc, "prefix": parts.path.lstrip("/")}

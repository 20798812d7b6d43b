"""What copies TensorBoard files to a storage while they are written."""

from __future__ import annotations

import abc
import logging
import queue
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from det_compat.shared.random_state import preserved_random_state

logger = logging.getLogger("determined.tensorboard")

_PATIENCE = 10.0  # seconds of waiting for uploads after which the log says so
_QUEUED = 50


@dataclass
class PathUploadInfo:
    """A file, and what it is called in the storage."""

    path: Path
    mangled_relative_path: Path


class TensorboardManager(abc.ABC):
    """Copies what is new in a directory, once a second at most.

    Args:
        base_path: the directory.
        sync_path: where to, in the storage.
        async_upload: whether a thread copies.
        sync_on_close: whether what is new at the end is copied.
    """

    def __init__(
        self,
        base_path: Path,
        sync_path: Path,
        async_upload: bool = True,
        sync_on_close: bool = True,
    ) -> None:
        self.base_path = base_path
        self.sync_path = sync_path
        self.last_sync = 0.0
        self.sync_on_close = sync_on_close
        self.upload_thread = _TensorboardUploadThread(self._sync_impl) if async_upload else None

    def list_tb_files(self, since: float, selector: Callable[[Path], bool]) -> list[Path]:
        """The files that have changed since a time, as far as they are wanted."""
        return [
            file
            for file in self.base_path.rglob("*")
            if file.is_file() and file.stat().st_mtime > since and selector(file)
        ]

    def to_sync(self, selector: Callable[[Path], bool]) -> list[Path]:
        """The files that have changed since this was called last, as far as they are wanted."""
        begun = time.time()
        found = self.list_tb_files(self.last_sync, selector)
        self.last_sync = begun
        return found

    @abc.abstractmethod
    def _sync_impl(self, path_info_list: list[PathUploadInfo]) -> None:
        """Copy files to the storage."""

    @abc.abstractmethod
    def delete(self) -> None:
        """Delete all that was copied."""

    def sync(
        self,
        selector: Callable[[Path], bool] = lambda _: True,
        mangler: Callable[[Path, int], Path] = lambda path, _: path,
        rank: int = 0,
    ) -> None:
        """Copy what is new, unless something was copied within the last second.

        Args:
            selector: which files are wanted.
            mangler: what a file is called in the storage, given its path and the rank.
            rank: this process.
        """
        if time.time() - self.last_sync >= 1:
            self._sync(selector, mangler, rank)

    def _sync(
        self,
        selector: Callable[[Path], bool] = lambda _: True,
        mangler: Callable[[Path, int], Path] = lambda path, _: path,
        rank: int = 0,
    ) -> None:
        files = [
            PathUploadInfo(file, mangler(file.relative_to(self.base_path), rank))
            for file in self.to_sync(selector)
        ]
        if self.upload_thread is not None and self.upload_thread.is_alive():
            self.upload_thread.upload(files)
        else:
            with preserved_random_state():
                self._sync_impl(files)

    def start(self) -> None:
        """Begin."""
        if self.upload_thread is not None:
            self.upload_thread.start()

    def close(self) -> None:
        """End, when all is copied."""
        if self.sync_on_close:
            self._sync()
        if self.upload_thread is not None and self.upload_thread.is_alive():
            self.upload_thread.close()

    def __enter__(self) -> TensorboardManager:
        self.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


class _TensorboardUploadThread(threading.Thread):
    """Copies lists of files, one after the other; one that fails is named in a warning."""

    def __init__(self, upload_function: Callable[[list[PathUploadInfo]], None]) -> None:
        super().__init__(daemon=True, name="TensorboardUploadThread")
        self._upload = upload_function
        self._queue: queue.Queue[list[PathUploadInfo] | None] = queue.Queue(_QUEUED)

    def run(self) -> None:
        while (files := self._queue.get()) is not None:
            try:
                self._upload(files)
            except Exception as error:
                logger.warning(f"Sync of Tensorboard files failed with error: {error}")

    def upload(self, path_info_list: list[PathUploadInfo]) -> None:
        """Have files copied."""
        self._queue.put(path_info_list)

    def close(self) -> None:
        """Wait until all are copied."""
        self._queue.put(None)
        self.join(_PATIENCE)
        while self.is_alive():
            logger.info("Waiting for Tensorboard files to finish uploading")
            self.join(_PATIENCE)


class SharedFSTensorboardManager(TensorboardManager):
    """Copies to a directory.

    Args:
        storage_path: the storage.
        base_path, sync_path, async_upload, sync_on_close: as for any manager.
    """

    def __init__(self, storage_path: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.storage_path = Path(storage_path)
        self.shared_fs_base = self.storage_path / self.sync_path
        self.shared_fs_base.mkdir(parents=True, exist_ok=True)

    def _sync_impl(self, path_info_list: list[PathUploadInfo]) -> None:
        for info in path_info_list:
            target = self.shared_fs_base / info.mangled_relative_path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(info.path, target)

    def delete(self) -> None:
        shutil.rmtree(self.shared_fs_base)


class DirectoryTensorboardManager(SharedFSTensorboardManager):
    """Copies to a directory, of a ``checkpoint_storage`` of type ``directory``."""

"""``core_context.checkpoint``: directories of files that a task keeps."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from det_compat.core.distributed import DistributedContext
from det_compat.core.downloads import DownloadMode, shared_selector
from det_compat.core.merging import (
    merge_metadata,
    merge_resources,
    own_files,
    raise_conflict,
)
from det_compat.core.storage import Selector, StorageManager
from det_compat.core.storage.local import METADATA, LocalStorage, is_complete, write_beside
from det_compat.core.storage.write_failures import named_write_failures
from det_compat.core.store import read_metadata
from det_compat.errors import CheckpointNotFound
from det_compat.script.run_paths import RunPaths

__all__ = [
    "CheckpointContext",
    "DownloadMode",
    "DummyCheckpointContext",
    "merge_metadata",
    "merge_resources",
]

logger = logging.getLogger("determined.core")


class CheckpointContext:
    """Checkpoints of a task, as Determined 0.38.1 has them off a cluster, and their metadata.

    A checkpoint is a directory that is named by a UUID, its ``storage_id``. Its ``metadata.json``
    is written last: one that has none was not finished.

    Args:
        dist: the ranks.
        storage_manager: where checkpoints are.
        session: a cluster's, to which checkpoints were reported; there is none, and a warning
            says so, as for those of the further arguments that told it more.
        task_id, allocation_id, tbd_sync_mode, tensorboard_manager, storage_backend_id: have no
            effect.
    """

    # On a cluster a trial's had to have them.
    _needs_steps = False

    def __init__(
        self,
        dist: DistributedContext,
        storage_manager: StorageManager,
        session: Any = None,
        task_id: str = "",
        allocation_id: str | None = None,
        tbd_sync_mode: Any = None,
        tensorboard_manager: Any = None,
        storage_backend_id: int | None = None,
    ) -> None:
        if session is not None:
            logger.warning("checkpoints are reported to no cluster: the session has no effect")
        self._dist = dist
        self._storage_manager = storage_manager
        self._previous: str | None = None
        #: The folder of the run, which keeps the names of its checkpoints; None for none.
        self.run: RunPaths | None = None

    def upload(
        self,
        ckpt_dir: str | os.PathLike[str] | None,
        metadata: dict[str, Any] | None = None,
        *,
        shard: bool = False,
        selector: Selector | None = None,
    ) -> str:
        """Store the content of a directory as a new checkpoint; returns its UUID.

        Args:
            ckpt_dir: the directory; under ``shard``, None for a rank that has nothing to add. It
                gets a file ``metadata.json``.
            metadata: what ``get_metadata`` will return; those of all ranks are merged.
            shard: whether all ranks call it, and the checkpoint has the files of all of them.
            selector: told each path below the directory; whether it is stored.

        Raises:
            RuntimeError: another rank than the chief has called it without ``shard``, there is no
                directory, or two ranks have different files or metadata under one name.
        """
        directory = None if ckpt_dir is None else os.fspath(ckpt_dir)
        if shard:
            return self._upload_sharded(directory, metadata, selector)
        if self._dist.rank != 0:
            raise RuntimeError(
                f"cannot call .upload(shard=False) from non-chief worker (rank={self._dist.rank})"
            )
        if directory is None:
            raise RuntimeError(
                "cannot call .upload(ckpt_dir=None, shard=False), which would result in doing "
                "nothing at all"
            )
        return self._upload_single(directory, metadata, selector)

    def _upload_single(
        self, directory: str, metadata: dict[str, Any] | None, selector: Selector | None
    ) -> str:
        self._check_metadata(metadata or {})
        storage_id = self._begin()
        write_beside(Path(directory), metadata or {})
        files = self._listed(directory, selector)
        paths = None if selector is None else {*files, METADATA}
        with self._naming_failures(storage_id):
            self._storage_manager.upload(src=directory, dst=storage_id, paths=paths)
        self._report_checkpoint(storage_id, files, metadata)
        return storage_id

    def _upload_sharded(
        self, directory: str | None, metadata: dict[str, Any] | None, selector: Selector | None
    ) -> str:
        storage_id = self._dist.broadcast(self._begin() if self._dist.rank == 0 else "")
        if selector is not None and directory is None:
            raise RuntimeError("ckpt_dir has to be provided if selector is not None")
        if not any(self._dist.allgather(directory is not None)):
            raise RuntimeError(
                "cannot call .upload(ckpt_dir=None, shard=True), from all ranks; "
                "at least one rank must have a valid ckpt_dir"
            )
        # Of the ranks that name one directory, the first uploads it; those with a selector upload
        # what they select.
        uploads = self._is_first_with(directory) or selector is not None
        files = self._listed(directory, selector) if uploads and directory else {}
        merged, own = own_files(self._dist, files, directory)
        all_metadata = self._merge_metadata(metadata)
        writer = self._dist.allgather(uploads).index(True)
        if self._dist.rank == writer and directory:
            write_beside(Path(directory), all_metadata)
            own[METADATA] = (Path(directory) / METADATA).stat().st_size
        # The checkpoint is complete with its metadata, which come when all else is there.
        if self._dist.rank != writer and uploads:
            self._upload_part(directory, storage_id, set(own))
        self._dist.allgather(None)
        if self._dist.rank == writer:
            self._upload_part(directory, storage_id, set(own))
        self._dist.allgather(None)
        if self._dist.rank == 0:
            self._report_checkpoint(storage_id, merged, all_metadata)
        return storage_id

    def _upload_part(self, directory: str | None, storage_id: str, paths: set[str]) -> None:
        assert directory is not None
        with self._naming_failures(storage_id):
            self._storage_manager.upload(src=directory, dst=storage_id, paths=paths)

    def _is_first_with(self, directory: str | os.PathLike[str] | None) -> bool:
        """Whether this is the lowest rank that has named this very directory."""
        found = None if directory is None else os.stat(directory)
        identity = found and (socket.gethostname(), found.st_dev, found.st_ino)
        all_identities = self._dist.allgather(identity)
        return found is not None and all_identities.index(identity) == self._dist.rank

    def _listed(self, directory: str, selector: Selector | None) -> dict[str, int]:
        found = self._storage_manager._list_directory(directory)
        return {name: found[name] for name in found if selector is None or selector(name)}

    def _merge_metadata(self, metadata: dict[str, Any] | None) -> dict[str, Any]:
        merged, conflicts = merge_metadata(self._dist.allgather(metadata or {}))
        if conflicts:
            raise_conflict(conflicts, "metadata", self._dist.rank)
        self._check_metadata(merged)
        return merged

    @contextlib.contextmanager
    def store_path(
        self, metadata: dict[str, Any] | None = None, *, shard: bool = False
    ) -> Iterator[tuple[Path, str]]:
        """Yield a new checkpoint's directory, to be written to, and its UUID; then store it.

        Args:
            metadata: what ``get_metadata`` will return; those of all ranks are merged.
            shard: whether all ranks call it, and the checkpoint has the files of all of them.

        Raises:
            CheckpointWriteError: the disk is full, or the like. As after every exception, what was
                written is removed as far as possible.
            RuntimeError: another rank than the chief has called it without ``shard``, or two ranks
                have different files or metadata under one name.
        """
        if shard:
            with self._store_path_sharded(metadata) as (path, storage_id):
                yield path, storage_id
            return
        if self._dist.rank != 0:
            raise RuntimeError(
                "cannot call CheckpointContext.store_path(shard=False) from non-chief worker "
                f"(rank={self._dist.rank})"
            )
        storage_id = self._begin()
        try:
            with contextlib.ExitStack() as stored:
                with self._naming_failures(storage_id):
                    path = stored.enter_context(self._storage_manager.store_path(storage_id))
                with self._naming_failures(storage_id, inside=path):
                    yield path, storage_id
                self._check_metadata(metadata or {})
                with self._naming_failures(storage_id):
                    self._complete(path, metadata or {})
                    files = self._storage_manager._list_directory(path)
                    stored.close()
        except BaseException:
            self._discard(storage_id)
            raise
        self._report_checkpoint(storage_id, files, metadata)

    @contextlib.contextmanager
    def _store_path_sharded(self, metadata: dict[str, Any] | None) -> Iterator[tuple[Path, str]]:
        storage_id = self._dist.broadcast(self._begin() if self._dist.rank == 0 else "")
        path = self._storage_manager.pre_store_path(storage_id)
        yield path, storage_id
        if self._storage_manager.store_path_is_direct_access():
            # All ranks have written into the same directory.
            all_metadata = self._merge_metadata(metadata)
            if self._dist.rank == 0:
                self._complete(path, all_metadata)
                merged = self._storage_manager._list_directory(path)
        else:
            uploads = self._is_first_with(path)
            files = self._storage_manager._list_directory(path) if uploads else {}
            merged, own = own_files(self._dist, files, path)
            all_metadata = self._merge_metadata(metadata)
            if self._dist.rank != 0 and uploads:
                self._storage_manager.post_store_path(src=path, dst=storage_id, paths=set(own))
            self._dist.allgather(None)
            if self._dist.rank == 0:
                write_beside(path, all_metadata)
                own[METADATA] = (path / METADATA).stat().st_size
                self._storage_manager.post_store_path(src=path, dst=storage_id, paths=set(own))
        if self._dist.rank == 0:
            self._report_checkpoint(storage_id, merged, all_metadata)
        self._dist.allgather(None)

    def download(
        self,
        storage_id: str,
        ckpt_dir: str | os.PathLike[str],
        download_mode: DownloadMode = DownloadMode.LocalWorkersShareDownload,
        *,
        selector: Selector | None = None,
    ) -> None:
        """Copy the files of a checkpoint into a directory.

        Args:
            storage_id: the checkpoint.
            ckpt_dir: the directory, which is made.
            download_mode: who copies; in step, what any rank of the machine selects is copied.
            selector: told each path in the checkpoint; whether it is copied.

        Raises:
            CheckpointNotFound: there is no such checkpoint.
        """
        target = os.fspath(ckpt_dir)
        if DownloadMode(download_mode) is DownloadMode.NoSharedDownload:
            self._storage_manager.download(src=storage_id, dst=target, selector=selector)
            return
        with shared_selector(self._dist, selector) as shared:
            if self._dist.local_rank == 0:
                self._storage_manager.download(src=storage_id, dst=target, selector=shared)

    @contextlib.contextmanager
    def restore_path(
        self,
        storage_id: str,
        download_mode: DownloadMode = DownloadMode.LocalWorkersShareDownload,
        *,
        selector: Selector | None = None,
    ) -> Iterator[Path]:
        """Yield a directory of this machine with the files of a checkpoint, for as long as needed.

        Args:
            storage_id: the checkpoint.
            download_mode: who downloads, where that has to be.
            selector: told each path in the checkpoint; whether it is needed. A directory of this
                machine has all of them.

        Raises:
            CheckpointNotFound: there is no such checkpoint.
        """
        if DownloadMode(download_mode) is DownloadMode.NoSharedDownload:
            with self._storage_manager.restore_path(storage_id, selector=selector) as path:
                yield path
            return
        with contextlib.ExitStack() as downloaded:
            path = Path()
            with shared_selector(self._dist, selector) as shared:
                if self._dist.local_rank == 0:
                    restored = self._storage_manager.restore_path(storage_id, shared)
                    path = downloaded.enter_context(restored)
            path = self._dist.broadcast_local(path)
            try:
                yield path
            finally:
                # The directory may go when no process of the machine needs it any more.
                self._dist.gather_local(None)

    def get_metadata(self, storage_id: str) -> dict[str, Any]:
        """The metadata of a checkpoint.

        Raises:
            CheckpointNotFound: there is no such checkpoint.
            CorruptCheckpointError: its ``metadata.json`` is no JSON object.
        """
        metadata = read_metadata(self._storage_manager, storage_id)
        if metadata is None:
            raise CheckpointNotFound(f"Did not find checkpoint {self._location(storage_id)}")
        return metadata

    def delete(self, storage_id: str) -> None:
        """Delete a checkpoint; nothing happens if there is none."""
        left = self._storage_manager.delete(storage_id, ["**/*"])
        self._report_checkpoint_deleted(storage_id, left)

    def finish(self) -> None:
        """Take note that the task is done."""

    def _check_metadata(self, metadata: dict[str, Any]) -> None:
        """Raise ValueError if a checkpoint may not have such metadata."""
        if self._needs_steps and "steps_completed" not in metadata:
            raise ValueError(
                "metadata for reported checkpoints, in the current implementation, requires a "
                "'steps_completed' item, which has not been provided"
            )

    def _begin(self) -> str:
        """The UUID of a new checkpoint."""
        storage_id = str(uuid.uuid4())
        if self.run is not None:
            self.run.begin_checkpoint(storage_id)
        return storage_id

    @staticmethod
    def _complete(path: Path, metadata: dict[str, Any]) -> None:
        LocalStorage(path.parent).commit(path.name, json.dumps(metadata, indent=2))

    def _location(self, storage_id: str) -> str:
        return self._storage_manager.location(storage_id)

    def _naming_failures(
        self, storage_id: str, inside: Path | None = None
    ) -> contextlib.AbstractContextManager[None]:
        return named_write_failures(self._location(storage_id), self._previous, inside)

    def _discard(self, storage_id: str) -> None:
        # A complete one stays, whatever has come after it.
        with contextlib.suppress(OSError):
            if not is_complete(lambda: self._storage_manager.metadata(storage_id)):
                self._storage_manager.discard(storage_id)

    def _report_checkpoint(
        self,
        storage_id: str,
        resources: dict[str, int] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        """Take note of a checkpoint that is complete."""
        self._previous = self._location(storage_id)
        logger.info(f"saved checkpoint {storage_id}")

    def _report_checkpoint_deleted(
        self, storage_id: str, resources: dict[str, int] | None = None
    ) -> None:
        """Take note of a checkpoint that is gone."""
        logger.info(f"deleted checkpoint {storage_id}")


class DummyCheckpointContext(CheckpointContext):
    """Checkpoints of a task off a cluster, by the name that Determined has for it."""

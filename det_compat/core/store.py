"""Where checkpoints lie, and which of them are complete."""

import contextlib
import dataclasses
import datetime
import json
import logging
import os
import sys
import uuid
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from det_compat.core.storage.local import LocalStorage, is_complete, is_unfinished
from det_compat.core.storage.manager import StorageManager
from det_compat.core.storage.remote import RemoteStorage, is_url, local_path
from det_compat.core.storage.write_failures import named_write_failures
from det_compat.errors import CorruptCheckpointError, UnfinishedCheckpointError
from det_compat.script.run_paths import RunPaths

logger = logging.getLogger("determined.core")

_Storage = LocalStorage | RemoteStorage
_READERS = 16


@dataclasses.dataclass(frozen=True)
class CompleteCheckpoint:
    """A checkpoint that was written to its end.

    Args:
        uuid: its name.
        metadata: the content of its ``metadata.json``.
    """

    uuid: str
    metadata: dict[str, Any] = dataclasses.field(hash=False)

    @property
    def steps_completed(self) -> int | None:
        """The batches trained, None if its metadata does not say."""
        steps = self.metadata.get("steps_completed")
        return steps if isinstance(steps, int) and not isinstance(steps, bool) else None

    @property
    def saved_at(self) -> str:
        """When it was saved, in ISO 8601 and UTC; empty if its metadata does not say."""
        saved_at = self.metadata.get("saved_at")
        return saved_at if isinstance(saved_at, str) else ""

    def age(self) -> tuple[int, str]:
        """What checkpoints are ordered by, oldest first."""
        return (-1 if self.steps_completed is None else self.steps_completed, self.saved_at)


class CheckpointStore:
    """A place with one directory a checkpoint, named by a UUID.

    A checkpoint is complete if its ``metadata.json`` is there: it is written last, when all else is
    on the disk or uploaded. Whatever happens to a process that writes or deletes a checkpoint, the
    others stay as they are, and that one is either complete or told apart from complete ones.

    Args:
        base_path: a directory, or a URL of fsspec: ``s3://`` needs the extra ``s3``, ``gs://`` the
            extra ``gs``, ``abfs://`` the extra ``azure``. Without it, the directory in which
            Determined 0.38.1 keeps the checkpoints of local training: ``determined`` in the user's
            data directory.
        storage_options: arguments of the fsspec filesystem, such as ``endpoint_url`` for S3.
        run: the folder of a run, which keeps the UUID of every checkpoint that is begun.

    Raises:
        ImportError: the extra that a URL needs is not installed.
        ValueError: fsspec does not know the protocol of a URL, or options for a directory.
    """

    def __init__(
        self,
        base_path: str | os.PathLike[str] | None = None,
        storage_options: Mapping[str, Any] | None = None,
        run: RunPaths | None = None,
    ) -> None:
        self._options = dict(storage_options or {})
        given = os.fspath(base_path) if base_path is not None else str(default_base_path())
        self.base_path: Path | str
        self._storage: _Storage
        if directory := _directory(given):
            if self._options:
                raise ValueError(f"storage_options are for URLs; {given!r} is a directory")
            # A trial may change its working directory.
            self.base_path = Path(os.path.abspath(directory.expanduser()))
            self._storage = LocalStorage(self.base_path)
        else:
            self.base_path = given
            self._storage = RemoteStorage(given, self._options)
        self._elsewhere: dict[str, RemoteStorage] = {}
        self._previous: str | None = None
        self._run = run

    @contextlib.contextmanager
    def store_path(self, metadata: dict[str, Any]) -> Iterator[tuple[Path, str]]:
        """Yield a new checkpoint's directory and UUID, then make it complete.

        The directory is the final one if the checkpoints lie on this machine. Else it is a
        temporary one, which is uploaded at the end.

        Args:
            metadata: the content of ``metadata.json``; ``saved_at`` is added.

        Raises:
            CheckpointWriteError: the disk is full, the directory cannot be written, or the like.
                As after every exception before the checkpoint is complete, what was written of it
                is removed as far as possible, and the earlier ones are kept.
        """
        storage_id = str(uuid.uuid4())
        location = self.location(storage_id)
        try:
            with named_write_failures(location, self._previous):
                path = self._storage.begin(storage_id)
            with named_write_failures(location, self._previous, inside=path):
                if self._run is not None:
                    self._run.begin_checkpoint(storage_id)
                yield path, storage_id
            with named_write_failures(location, self._previous):
                self._storage.commit(storage_id, metadata_text({**metadata, **self._about()}))
        except BaseException:
            # An interrupt may come when the checkpoint is complete already. Where that cannot be
            # found out, what was written stays, and is told apart by what is missing.
            with contextlib.suppress(OSError):
                if not is_complete(lambda: self._storage.metadata(storage_id)):
                    self._storage.discard(storage_id)
            raise
        self._previous = location
        logger.info(f"saved checkpoint {location}")

    def _about(self) -> dict[str, Any]:
        """What the metadata of every checkpoint have beside what the caller gives."""
        return {}

    def find(self, storage_id: str | os.PathLike[str]) -> Path:
        """The directory of a checkpoint, given its UUID, its path or its URL.

        One that is not on this machine is downloaded; the copy is removed when the process
        ends. A directory given by its path may be of any origin: only those that
        ``store_path`` has left unfinished are refused.

        Raises:
            FileNotFoundError: there is none.
            UnfinishedCheckpointError: its writing was interrupted, or its deletion.
            CorruptCheckpointError: its ``metadata.json`` cannot be read.
        """
        given = os.fspath(storage_id)
        directory = _directory(given)
        if directory is None:
            url, _, name = given.rstrip("/").rpartition("/")
            return _complete(self._storage_at(url), name, "")
        if given and directory.is_dir():
            if is_unfinished(directory):
                raise _unfinished(str(directory))
            return directory
        if directory.name == given and given:
            return _complete(self._storage, given, f"neither {directory.absolute()} nor ")
        raise FileNotFoundError(f"found no checkpoint {given!r}: {directory} is no directory")

    def _storage_at(self, url: str) -> RemoteStorage:
        if url not in self._elsewhere:
            same = _scheme(url) == _scheme(str(self.base_path))
            self._elsewhere[url] = RemoteStorage(url, self._options if same else {})
        return self._elsewhere[url]

    def list(self) -> Sequence[CompleteCheckpoint]:
        """The complete checkpoints, oldest first: by batches trained, then by the time of saving.

        Those whose ``metadata.json`` cannot be read are left out, and named in a warning.
        """
        names = [name for name in self._storage.names() if is_uuid(name)]
        # Most of the time goes into waiting for answers of an object store.
        with ThreadPoolExecutor(_READERS) as readers:
            found = [*readers.map(self.complete, names)]
        return sorted(filter(None, found), key=CompleteCheckpoint.age)

    def latest(self) -> CompleteCheckpoint | None:
        """The complete checkpoint after most batches, of these the last saved; None without any."""
        return next(reversed(self.list()), None)

    def complete(self, storage_id: str) -> CompleteCheckpoint | None:
        """The checkpoint of a UUID, None if it is not complete or its metadata cannot be read."""
        try:
            metadata = read_metadata(self._storage, storage_id)
        except (CorruptCheckpointError, IsADirectoryError, PermissionError) as error:
            logger.warning(f"{error}; it is left out")
            return None
        return None if metadata is None else CompleteCheckpoint(storage_id, metadata)

    def location(self, storage_id: str) -> str:
        """The path or URL at which a checkpoint is or would be."""
        return self._storage.location(storage_id)

    def unfinished(self) -> Sequence[str]:
        """The UUIDs of what interrupted runs have left, and of what is being written right now."""
        return [
            name
            for name in self._storage.names()
            if is_uuid(name) and self._storage.metadata(name) is None
        ]

    def delete(self, storage_id: str) -> None:
        """Delete a checkpoint, complete or not.

        Raises:
            FileNotFoundError: there is none.
            ValueError: ``storage_id`` is no UUID: nothing else is deleted.
        """
        if not is_uuid(storage_id):
            raise ValueError(f"checkpoints are deleted by their UUID, got {storage_id!r}")
        if not self._storage.exists(storage_id):
            raise FileNotFoundError(f"found no checkpoint {self.location(storage_id)}")
        self._storage.delete(storage_id)
        logger.info(f"deleted checkpoint {self.location(storage_id)}")


def read_metadata(storage: _Storage | StorageManager, storage_id: str) -> dict[str, Any] | None:
    """The content of a checkpoint's ``metadata.json``, None if there is none.

    Raises:
        CorruptCheckpointError: it is no JSON object.
    """
    content = storage.metadata(storage_id)
    if content is None:
        return None
    try:
        metadata = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CorruptCheckpointError(
            f"{storage.location(storage_id)} is corrupt: its metadata.json is no JSON ({error})"
        ) from error
    if not isinstance(metadata, dict):
        raise CorruptCheckpointError(
            f"{storage.location(storage_id)} is corrupt: its metadata.json has no JSON object"
        )
    return metadata


def metadata_text(metadata: dict[str, Any]) -> str:
    """The content of a ``metadata.json``; ``saved_at`` is added, unless it is there."""
    now = datetime.datetime.now(datetime.timezone.utc)
    return json.dumps({"saved_at": now.isoformat(timespec="microseconds"), **metadata}, indent=2)


def _complete(storage: _Storage, storage_id: str, looked_at: str) -> Path:
    """The directory of a complete checkpoint; ``looked_at`` begins what is said if none is."""
    if read_metadata(storage, storage_id) is not None:
        return storage.fetch(storage_id)
    location = storage.location(storage_id)
    if storage.exists(storage_id):
        raise _unfinished(location)
    raise FileNotFoundError(
        f"found no checkpoint {storage_id!r}: {looked_at}{location} is a directory"
        if looked_at
        else f"found no checkpoint {storage_id!r}: there is no {location}"
    )


def _unfinished(location: str) -> UnfinishedCheckpointError:
    return UnfinishedCheckpointError(
        f"checkpoint {location} has no metadata.json, which is written last: the run was "
        "interrupted while it wrote it, or deleted it. Use an earlier checkpoint"
    )


def _directory(location: str) -> Path | None:
    return local_path(location) if is_url(location) else Path(location)


def _scheme(url: str) -> str:
    return url.partition("://")[0]


def is_uuid(name: str) -> bool:
    """Whether a folder is called as checkpoints are."""
    try:
        return str(uuid.UUID(name)) == name
    except ValueError:
        return False


def default_base_path() -> Path:
    """Where Determined 0.38.1 keeps the checkpoints of local training.

    For a user without a home, as in some containers, that is below a folder ``~``.
    """
    home = Path(os.path.abspath(os.path.expanduser("~")))
    if sys.platform == "win32":
        root = Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local"))
    elif sys.platform == "darwin":
        root = home / "Library" / "Application Support"
    else:
        root = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    return root / "determined"

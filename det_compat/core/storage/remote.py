"""Checkpoints wherever fsspec reaches: object stores, other machines."""

import atexit
import contextlib
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from det_compat.core.storage.local import METADATA
from det_compat.shared.extras import how_to_install
from det_compat.shared.random_state import preserved_random_state

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*(://|::)")
_LOCAL_URL = re.compile(r"(file|local)://")

# The extra of this package that brings the implementation of each protocol of fsspec.
_EXTRAS = {
    **dict.fromkeys(("s3", "s3a"), "s3"),
    **dict.fromkeys(("gs", "gcs"), "gs"),
    **dict.fromkeys(("abfs", "abfss", "az", "adl"), "azure"),
}


def is_url(location: str) -> bool:
    """Whether ``location`` is a URL of fsspec, ``file://`` included, and no path."""
    return _URL.match(location) is not None


def local_path(url: str) -> Path | None:
    """The path that a ``file://`` URL stands for; None for other URLs."""
    if not _LOCAL_URL.match(url):
        return None
    from fsspec.core import url_to_fs

    return Path(url_to_fs(url)[1])


def open_filesystem(url: str, options: Mapping[str, Any]) -> tuple[Any, str]:
    """The fsspec filesystem of ``url`` and the path in it.

    Raises:
        ImportError: what the protocol needs is not installed.
        ValueError: no such protocol.
    """
    from fsspec.core import url_to_fs

    protocol = re.split("://|::", url, maxsplit=1)[0]
    try:
        filesystem, path = url_to_fs(url, **options)
    except ImportError as error:
        extra = _EXTRAS.get(protocol)
        remedy = f": {how_to_install(extra)}" if extra else ""
        raise ImportError(
            f"checkpoints on {protocol}:// need a package that is not here ({error}){remedy}"
        ) from error
    except ValueError as error:
        raise ValueError(
            f"cannot keep checkpoints on {protocol}://: {error}. Give a directory, or a URL of a "
            "filesystem that fsspec knows, such as s3://bucket/prefix"
        ) from error
    return filesystem, path.rstrip("/")


class RemoteStorage:
    """A prefix of a remote filesystem with one directory a checkpoint.

    New checkpoints are written to a temporary directory of this machine and uploaded at the end,
    ``metadata.json`` last. Those that are read are downloaded once; the copies go when the process
    ends.

    Args:
        url: where the checkpoints are.
        options: arguments of the fsspec filesystem, such as ``endpoint_url`` for S3.
    """

    def __init__(self, url: str, options: Mapping[str, Any]) -> None:
        self._filesystem, self._base = open_filesystem(url, options)
        self._being_written: dict[str, Path] = {}
        self._fetched: dict[str, Path] = {}

    def location(self, storage_id: str) -> str:
        """The URL of a checkpoint, without what a password may be in."""
        return str(self._filesystem.unstrip_protocol(self._root(storage_id)))

    def begin(self, storage_id: str) -> Path:
        """Make the temporary directory that a new checkpoint is written into."""
        path = Path(tempfile.mkdtemp(prefix="det_compat-"), storage_id)
        self._being_written[storage_id] = path
        path.mkdir()
        return path

    def commit(self, storage_id: str, metadata: str) -> None:
        """Upload a checkpoint and make it complete.

        Raises:
            OSError: it could not be uploaded, or not all of it has arrived.
        """
        path = self._being_written[storage_id]
        (path / METADATA).write_text(metadata, encoding="utf-8")
        found = (file for file in path.rglob("*") if file.is_file())
        self.put(storage_id, {file.relative_to(path).as_posix(): file for file in found})
        self._remove_local(storage_id)

    def _check_arrived(self, root: str, sizes: dict[str, int]) -> None:
        self._filesystem.invalidate_cache()
        there = self._filesystem.find(root, detail=True) if sizes else {}
        arrived = {name.lstrip("/"): info["size"] for name, info in there.items()}
        missing = [name for name in sizes if arrived.get(name.lstrip("/")) != sizes[name]]
        if missing:
            raise OSError(f"{', '.join(missing)} did not arrive whole")

    def discard(self, storage_id: str) -> None:
        """Remove what was begun, here and there, as far as that is possible."""
        self._remove_local(storage_id)
        with contextlib.suppress(OSError):
            self.delete(storage_id)

    def _remove_local(self, storage_id: str) -> None:
        if path := self._being_written.pop(storage_id, None):
            shutil.rmtree(path.parent, ignore_errors=True)

    def delete(self, storage_id: str) -> None:
        """Remove a checkpoint; killed in between, it leaves an unfinished one."""
        root = self._root(storage_id)
        with self._reached() as filesystem:
            with contextlib.suppress(FileNotFoundError):
                filesystem.rm_file(f"{root}/{METADATA}")
            filesystem.invalidate_cache()
            # An object store has no directory any more once the last file is gone.
            if filesystem.exists(root):
                filesystem.rm(root, recursive=True)

    def metadata(self, storage_id: str) -> bytes | None:
        """The content of a checkpoint's ``metadata.json``, None if there is none."""
        with self._reached() as filesystem:
            try:
                content: bytes = filesystem.cat_file(f"{self._root(storage_id)}/{METADATA}")
            except (FileNotFoundError, NotADirectoryError):
                return None
        return content

    def names(self) -> list[str]:
        """What lies under the prefix, finished or not."""
        with self._reached() as filesystem:
            try:
                paths = filesystem.ls(self._base, detail=False)
            except FileNotFoundError:
                return []
        return sorted(path.rstrip("/").rpartition("/")[2] for path in paths)

    def exists(self, storage_id: str) -> bool:
        """Whether anything is there under that name."""
        with self._reached() as filesystem:
            return bool(filesystem.exists(self._root(storage_id)))

    def is_unfinished(self, storage_id: str) -> bool:
        """Whether a checkpoint is not complete: what else is there looks the same."""
        return self.metadata(storage_id) is None

    def fetch(self, storage_id: str) -> Path:
        """A copy of a checkpoint on this machine, removed when the process ends.

        Raises:
            OSError: it could not be downloaded.
        """
        if storage_id not in self._fetched:
            self._fetched[storage_id] = self._download(storage_id)
        return self._fetched[storage_id]

    def _download(self, storage_id: str) -> Path:
        folder = tempfile.mkdtemp(prefix="det_compat-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        path = Path(folder, storage_id)
        path.mkdir()
        for name, size in self.files(storage_id).items():
            self.get(storage_id, name, size, inside(path, name))
        return path

    def files(self, storage_id: str) -> dict[str, int]:
        """What lies in a checkpoint: files with their sizes, and directories with a "/" and 0."""
        root = self._root(storage_id)
        with self._reached() as filesystem:
            found = filesystem.find(root, detail=True, withdirs=True)
        files = {}
        for path, about in found.items():
            name = path.lstrip("/").removeprefix(root.lstrip("/")).lstrip("/")
            if about["type"] == "directory":
                name = name and f"{name.rstrip('/')}/"
            if name:
                files[name] = 0 if name.endswith("/") else int(about["size"] or 0)
        return files

    def put(self, storage_id: str, files: Mapping[str, Path | None]) -> None:
        """Upload files, by their names in the checkpoint; None stands for an empty directory.

        ``metadata.json`` comes last. Object stores keep no empty directories.

        Raises:
            OSError: one could not be uploaded, or not all of it has arrived.
        """
        root, metadata = self._root(storage_id), files.get(METADATA)
        others = {f"{root}/{name}": file for name, file in files.items() if name != METADATA}
        with self._reached() as filesystem:
            for target, file in sorted(others.items()):
                if file is not None:
                    filesystem.put_file(str(file), target)
                else:
                    filesystem.makedirs(target.rstrip("/"), exist_ok=True)
            sizes = {name: file.stat().st_size for name, file in others.items() if file}
            self._check_arrived(root, sizes)
            if metadata is not None:
                filesystem.put_file(str(metadata), f"{root}/{METADATA}")

    def get(self, storage_id: str, name: str, size: int, target: Path) -> None:
        """Download one file of a checkpoint, or make one of its directories.

        Raises:
            OSError: it could not be downloaded, or not all of it has arrived.
        """
        if name.endswith("/"):
            target.mkdir(parents=True, exist_ok=True)
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        path = f"{self._root(storage_id)}/{name}"
        with self._reached() as filesystem:
            filesystem.get_file(path, str(target))
        # Of some files no size is known.
        if size and target.stat().st_size != size:
            raise OSError(f"{path} was not downloaded whole")

    def remove(self, storage_id: str, names: Iterable[str]) -> None:
        """Remove files and directories of a checkpoint."""
        with self._reached() as filesystem:
            # What is in a directory goes before it.
            for name in sorted(names, reverse=True):
                path = f"{self._root(storage_id)}/{name}".rstrip("/")
                with contextlib.suppress(FileNotFoundError):
                    filesystem.rm(path, recursive=name.endswith("/"))

    def _root(self, storage_id: str) -> str:
        return f"{self._base}/{storage_id}"

    @contextlib.contextmanager
    def _reached(self) -> Iterator[Any]:
        """The filesystem with nothing cached, and with OSError for whatever it raises.

        Filesystems raise errors of their own HTTP libraries, which have no base class in common.
        botocore draws from Python's ``random`` before it tries a request again: a trial that draws
        from it, too, must not notice.
        """
        self._filesystem.invalidate_cache()
        try:
            with preserved_random_state():
                yield self._filesystem
        except OSError:
            raise
        except Exception as error:
            raise OSError(f"{type(error).__name__}: {error}") from error


def inside(folder: Path, relative: str) -> Path:
    """The path of a file of a checkpoint in ``folder``.

    Raises:
        OSError: it is no place in there.
    """
    # An object in a store may have any name.
    if ".." in relative.split("/"):
        raise OSError(f"a file of the checkpoint is called {relative!r}, which is no place in it")
    return folder / relative

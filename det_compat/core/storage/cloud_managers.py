"""Storage managers of object stores, which fsspec reaches."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from det_compat.core.storage.directory_managers import SharedFSStorageManager
from det_compat.core.storage.local import UNFINISHED
from det_compat.core.storage.manager import Paths, Selector, StorageManager, normalize_prefix
from det_compat.core.storage.remote import RemoteStorage, inside
from det_compat.errors import CheckpointNotFound
from det_compat.shared.random_state import preserved_random_state

logger = logging.getLogger("determined.common.storage")


class CloudStorageManager(StorageManager):
    """Directories at a URL of fsspec, of which copies are made on this machine.

    Args:
        url: where they are.
        options: arguments of the fsspec filesystem.
        temp_dir: where copies are made, by default the machine's directory for such files.

    Raises:
        ImportError: what the protocol needs is not installed.
        ValueError: no such protocol.
    """

    def __init__(
        self, url: str, options: Mapping[str, Any] | None = None, temp_dir: str | None = None
    ) -> None:
        super().__init__(temp_dir if temp_dir is not None else tempfile.gettempdir())
        self._storage = RemoteStorage(url, options or {})

    def location(self, storage_id: str) -> str:
        return self._storage.location(storage_id)

    def store_path_is_direct_access(self) -> bool:
        return False

    def post_store_path(
        self, src: str | os.PathLike[str], dst: str, paths: set[str] | None = None
    ) -> None:
        try:
            self.upload(src, dst, paths)
        finally:
            shutil.rmtree(src, ignore_errors=True)

    def discard(self, dst: str) -> None:
        shutil.rmtree(Path(self._base_path, dst), ignore_errors=True)
        self._storage.discard(dst)

    @contextlib.contextmanager
    def restore_path(self, src: str, selector: Selector | None = None) -> Iterator[Path]:
        path = Path(tempfile.mkdtemp(prefix=f"{src}-", dir=self._base_path))
        try:
            self.download(src, path, selector)
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)

    def upload(self, src: str | os.PathLike[str], dst: str, paths: Paths | None = None) -> None:
        names = self._list_directory(src) if paths is None else paths
        files = {name: None if name.endswith("/") else Path(src, name) for name in names}
        files.pop(UNFINISHED, None)
        with preserved_random_state():
            self._storage.put(dst, files)

    def download(
        self, src: str, dst: str | os.PathLike[str], selector: Selector | None = None
    ) -> None:
        with preserved_random_state():
            files = self._storage.files(src)
            if not files:
                raise CheckpointNotFound(
                    f"Did not find checkpoint {src}: there is no {self.location(src)}"
                )
            for name, size in sorted(files.items()):
                if selector is None or selector(name):
                    self._storage.get(src, name, size, inside(Path(dst), name))

    def delete(self, tgt: str, globs: list[str]) -> dict[str, int]:
        files = self._storage.files(tgt)
        if "**/*" in globs:
            self._storage.delete(tgt)
            return {}
        left = _left_by(files, globs)
        self._storage.remove(tgt, [name for name in files if name not in left])
        return left

    def metadata(self, storage_id: str) -> bytes | None:
        return self._storage.metadata(storage_id)


def _left_by(files: dict[str, int], globs: list[str]) -> dict[str, int]:
    """What globs leave of files, by the rules that a directory of this machine has for them."""
    with tempfile.TemporaryDirectory() as folder:
        for name in files:
            path = inside(Path(folder, "it"), name)
            path.parent.mkdir(parents=True, exist_ok=True)
            if name.endswith("/"):
                path.mkdir(exist_ok=True)
            else:
                path.touch()
        left = SharedFSStorageManager(folder).delete("it", globs)
    return {name: size for name, size in files.items() if name in left}


class S3StorageManager(CloudStorageManager):
    """Directories in a bucket of S3; needs the extra ``s3``."""

    def __init__(
        self,
        bucket: str,
        access_key: str | None = None,
        secret_key: str | None = None,
        endpoint_url: str | None = None,
        prefix: str | None = None,
        temp_dir: str | None = None,
    ) -> None:
        self.bucket_name = bucket
        self.prefix = normalize_prefix(prefix)
        options = {"key": access_key, "secret": secret_key, "endpoint_url": endpoint_url}
        super().__init__(_url("s3", bucket, self.prefix), _given(options), temp_dir)

    def get_storage_prefix(self, storage_id: str) -> str:
        """The key that all objects of a checkpoint begin with."""
        return os.path.join(self.prefix, storage_id)


class GCSStorageManager(CloudStorageManager):
    """Directories in a bucket of Google Cloud Storage; needs the extra ``gs``."""

    def __init__(self, bucket: str, prefix: str | None = None, temp_dir: str | None = None) -> None:
        self.prefix = normalize_prefix(prefix)
        super().__init__(_url("gs", bucket, self.prefix), None, temp_dir)

    def get_storage_prefix(self, storage_id: str) -> str:
        """The name that all objects of a checkpoint begin with."""
        return os.path.join(self.prefix, storage_id)


class AzureStorageManager(CloudStorageManager):
    """Directories in a container of Azure Blob Storage; needs the extra ``azure``."""

    def __init__(
        self,
        container: str,
        connection_string: str | None = None,
        account_url: str | None = None,
        credential: str | None = None,
        temp_dir: str | None = None,
    ) -> None:
        account = (account_url or "").rpartition("://")[2].strip("/")
        options = {
            "connection_string": connection_string,
            "credential": credential,
            "account_name": account.split(".")[0],
            "account_host": account,
        }
        super().__init__(f"abfs://{container}", _given(options), temp_dir)


def _url(scheme: str, bucket: str, prefix: str) -> str:
    return f"{scheme}://{bucket}/{prefix}" if prefix else f"{scheme}://{bucket}"


def _given(options: Mapping[str, str | None]) -> dict[str, str]:
    return {name: value for name, value in options.items() if value}

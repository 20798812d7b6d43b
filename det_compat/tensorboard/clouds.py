"""What copies TensorBoard files to object stores, by the libraries that Determined 0.38.1 uses."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

from det_compat.core.storage import normalize_prefix
from det_compat.tensorboard.managers import PathUploadInfo, TensorboardManager


def _imported(module: str, package: str) -> Any:
    """A module; an error says by which package of an index it comes, if it is not here."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ImportError(
            f"TensorBoard files are copied there by {package}, which is not installed ({error}): "
            f"pip install {package}"
        ) from error


class CloudTensorboardManager(TensorboardManager):
    """Copies to names in an object store, each with a prefix."""

    prefix = ""

    @property
    def _folder(self) -> str:
        return os.path.join(self.prefix, self.sync_path)

    def _sync_impl(self, path_info_list: list[PathUploadInfo]) -> None:
        for info in path_info_list:
            self._upload(info.path, os.path.join(self._folder, info.mangled_relative_path))

    def _upload(self, path: Path, name: str) -> None:
        raise NotImplementedError


class S3TensorboardManager(CloudTensorboardManager):
    """Copies to a bucket of S3, by boto3.

    Args:
        bucket, access_key, secret_key, endpoint_url, prefix: as ``checkpoint_storage`` has them.
        base_path, sync_path, async_upload, sync_on_close: as for any manager.

    Raises:
        ImportError: boto3 is not installed.
        ValueError: the prefix leads out of itself.
    """

    def __init__(
        self,
        bucket: str,
        access_key: str | None,
        secret_key: str | None,
        endpoint_url: str | None,
        prefix: str | None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        boto3 = _imported("boto3", "boto3")
        self.prefix = normalize_prefix(prefix)
        self.bucket = bucket
        options = {
            "endpoint_url": endpoint_url,
            "aws_access_key_id": access_key,
            "aws_secret_access_key": secret_key,
        }
        self.client = boto3.client("s3", **options)
        self.resource = boto3.resource("s3", **options)

    def _upload(self, path: Path, name: str) -> None:
        self.client.upload_file(str(path), self.bucket, name)

    def delete(self) -> None:
        self.resource.Bucket(self.bucket).objects.filter(Prefix=self._folder).delete()


class GCSTensorboardManager(CloudTensorboardManager):
    """Copies to a bucket of Google Cloud Storage, by google-cloud-storage.

    Args:
        bucket, prefix: as ``checkpoint_storage`` has them.
        base_path, sync_path, async_upload, sync_on_close: as for any manager.

    Raises:
        ImportError: google-cloud-storage is not installed.
        ValueError: the prefix leads out of itself.
    """

    def __init__(self, bucket: str, prefix: str | None, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        storage = _imported("google.cloud.storage", "google-cloud-storage")
        self.prefix = normalize_prefix(prefix)
        self.client = storage.Client()
        self.bucket = self.client.bucket(bucket)

    def get_storage_prefix(self, storage_id: Path) -> str:
        """The name that all objects of ``storage_id`` begin with."""
        return os.path.join(self.prefix, storage_id)

    def _upload(self, path: Path, name: str) -> None:
        self.bucket.blob(name).upload_from_filename(str(path))

    def delete(self) -> None:
        self.bucket.delete_blobs(list(self.bucket.list_blobs(prefix=self._folder)))


class AzureTensorboardManager(CloudTensorboardManager):
    """Copies to a container of Azure Blob Storage, by azure-storage-blob.

    Args:
        container, connection_string, account_url, credential: as ``checkpoint_storage`` has them.
        base_path, sync_path, async_upload, sync_on_close: as for any manager.

    Raises:
        ImportError: azure-storage-blob is not installed.
        ValueError: there is neither a connection string nor a URL.
    """

    def __init__(
        self,
        container: str,
        connection_string: str | None = None,
        account_url: str | None = None,
        credential: str | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        if not connection_string and not account_url:
            raise ValueError("azure storage needs connection_string or account_url")
        services = _imported("azure.storage.blob", "azure-storage-blob").BlobServiceClient
        service = (
            services.from_connection_string(connection_string)
            if connection_string
            else services(account_url, credential)
        )
        self.container = container.rstrip("/")
        self.client = service.get_container_client(self.container)

    def _upload(self, path: Path, name: str) -> None:
        with path.open("rb") as file:
            self.client.upload_blob(name, file, overwrite=True)

    def delete(self) -> None:
        for blob in self.client.list_blobs(name_starts_with=self._folder):
            self.client.delete_blob(blob.name)

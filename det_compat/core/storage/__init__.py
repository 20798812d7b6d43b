"""Where checkpoints are kept: directories of this machine, and whatever fsspec reaches."""

from __future__ import annotations

import urllib.parse
import uuid
from typing import Any

from det_compat.core.storage.cloud_managers import (
    AzureStorageManager,
    CloudStorageManager,
    GCSStorageManager,
    S3StorageManager,
)
from det_compat.core.storage.directory_managers import (
    DirectoryStorageManager,
    SharedFSStorageManager,
)
from det_compat.core.storage.manager import Paths, Selector, StorageManager, normalize_prefix
from det_compat.core.storage.remote import is_url

__all__ = [
    "AzureStorageManager",
    "CloudStorageManager",
    "DirectoryStorageManager",
    "GCSStorageManager",
    "Paths",
    "S3StorageManager",
    "Selector",
    "SharedFSStorageManager",
    "StorageManager",
    "build",
    "from_string",
    "location_of",
    "manager_of",
    "normalize_prefix",
    "validate_config",
    "validate_manager",
]

_MANAGERS: dict[str, type[StorageManager]] = {
    "azure": AzureStorageManager,
    "gcs": GCSStorageManager,
    "s3": S3StorageManager,
    "shared_fs": SharedFSStorageManager,
    "directory": DirectoryStorageManager,
}

_NOT_THE_MANAGERS = (
    "save_experiment_best",
    "save_trial_best",
    "save_trial_latest",
    "tensorboard_path",
    "checkpoint_path",
)


def build(config: dict[str, Any], container_path: str | None) -> StorageManager:
    """The manager for the ``checkpoint_storage`` of an experiment config.

    Args:
        config: its keys, the type included.
        container_path: what stands for ``host_path`` of ``shared_fs`` in a container.

    Raises:
        CheckFailedError: a key of a directory is missing or not known.
        TypeError: there is no such type, or a key is missing or not known.
        ValueError: there is no type, or it is no string.
    """
    if "type" not in config:
        raise ValueError("Missing 'type' parameter of storage configuration")
    kind = config["type"]
    if not isinstance(kind, str):
        raise ValueError("`type` parameter of storage configuration must be a string")
    if kind not in _MANAGERS:
        raise TypeError(f"Unknown storage type: {kind}")
    kept = {k: v for k, v in config.items() if k not in ("type", *_NOT_THE_MANAGERS)}
    if kind == "shared_fs" and "storage_path" not in kept:
        # Configs of early releases named it so.
        kept["storage_path"] = config.get("tensorboard_path", config.get("checkpoint_path"))
    if kind == "azure":
        _check_azure(kept)
    try:
        return _MANAGERS[kind].from_config(kept, container_path)
    except TypeError as error:
        raise TypeError(f"Failed to instantiate {kind} checkpoint storage: {error}") from error


def _check_azure(config: dict[str, Any]) -> None:
    if "connection_string" not in config and "account_url" not in config:
        raise ValueError("azure storage needs connection_string or account_url; both are missing")
    if "container" not in config:
        raise ValueError("Container name must be specified for Azure Blob Storage.")


def from_string(shortcut: str) -> StorageManager:
    """The manager for a path, ``file://``, ``s3://`` or ``gs://`` URL, or another URL of fsspec.

    Raises:
        ImportError: what the protocol needs is not installed.
        ValueError: it is none of these.
    """
    parts = urllib.parse.urlparse(shortcut)
    if parts.params or parts.query or parts.fragment:
        raise ValueError(f'Malformed checkpoint_storage string "{shortcut}"')
    scheme = parts.scheme.lower()
    if scheme in ("", "file"):
        if parts.netloc:
            raise ValueError("A netloc in the file URI of checkpoint_storage is not allowed.")
        return SharedFSStorageManager(base_path=parts.path)
    prefix = parts.path.lstrip("/")
    if scheme == "gs":
        return GCSStorageManager(bucket=parts.netloc, prefix=prefix)
    if scheme == "s3":
        return S3StorageManager(bucket=parts.netloc, prefix=prefix)
    if "://" not in shortcut:
        raise ValueError(
            f'Could not understand storage manager scheme "{parts.scheme}". Use "gs", "s3", '
            '"file", another protocol of fsspec, or omit it.'
        )
    return CloudStorageManager(shortcut)


def manager_of(given: str | dict[str, Any]) -> StorageManager:
    """The manager of a path, a URL, or a ``checkpoint_storage`` as in an experiment config.

    Raises:
        TypeError: it is none of these.
        ValueError: it cannot be used.
    """
    if isinstance(given, str):
        return from_string(given)
    if isinstance(given, dict):
        return build(given, container_path=None)
    raise TypeError("checkpoint_storage must be a string, dictionary, or None")


def location_of(manager: StorageManager, given: str | dict[str, Any]) -> str:
    """The path or URL at which a manager has its checkpoints, wherever it is read.

    Args:
        manager: made of ``given``.
        given: a path, a URL, or a ``checkpoint_storage`` as in an experiment config.
    """
    if isinstance(given, str) and is_url(given):
        return given
    return manager.location("-").removesuffix("/-")


def validate_manager(manager: StorageManager) -> None:
    """Write, read and delete something; raises whatever a manager that cannot do it raises.

    Raises:
        ValueError: what was read is not what was written.
    """
    name = str(uuid.uuid4())
    with manager.store_path(name) as path, (path / "VALIDATE.txt").open("w") as file:
        file.write(name)
    with manager.restore_path(name) as path, (path / "VALIDATE.txt").open("r") as file:
        if file.read() != name:
            raise ValueError("Unable to properly load from storage")
    manager.delete(name, ["**/*"])


def validate_config(config: dict[str, Any], container_path: str | None) -> None:
    """``validate_manager`` of the manager for a ``checkpoint_storage``."""
    validate_manager(build(config, container_path))

"""Which manager a ``checkpoint_storage`` has for TensorBoard files, and where they are."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from det_compat.core.storage.directory_managers import full_storage_path, shortcut_to_config
from det_compat.tensorboard.clouds import (
    AzureTensorboardManager,
    GCSTensorboardManager,
    S3TensorboardManager,
)
from det_compat.tensorboard.managers import (
    DirectoryTensorboardManager,
    SharedFSTensorboardManager,
    TensorboardManager,
)


def get_base_path(checkpoint_config: Mapping[str, Any]) -> Path:
    """Where a task on a cluster wrote its TensorBoard files."""
    folder = Path(checkpoint_config.get("base_path") or os.path.join(os.sep, "tmp"))
    allocation, rank = os.environ.get("DET_ALLOCATION_ID", ""), os.environ.get("HOROVOD_RANK", "0")
    return folder / f"tensorboard-{allocation}-{int(rank)}"


def get_experiment_sync_path(cluster_id: str, experiment_id: str) -> Path:
    """Where the files of an experiment are, in a storage."""
    return Path(cluster_id, "tensorboard", "experiment", experiment_id)


def get_sync_path(cluster_id: str, experiment_id: str, trial_id: str) -> Path:
    """Where the files of a trial are, in a storage."""
    return get_experiment_sync_path(cluster_id, experiment_id) / "trial" / trial_id


def build(
    cluster_id: str,
    experiment_id: str,
    trial_id: str | None,
    checkpoint_config: Mapping[str, Any] | str,
    container_path: str | None = None,
    async_upload: bool = True,
    sync_on_close: bool = True,
) -> TensorboardManager:
    """The manager for a ``checkpoint_storage``, as in Determined 0.38.1.

    Raises:
        ImportError: what the storage needs is not installed.
        KeyError: the configuration lacks what its type needs.
        TypeError: it is of an unknown type, or of none.
        ValueError: the storage cannot be used.
    """
    if isinstance(checkpoint_config, str):
        checkpoint_config = shortcut_to_config(checkpoint_config)
    kind = checkpoint_config.get("type")
    if not kind:
        raise TypeError("Missing 'type' parameter of storage configuration")
    if not isinstance(kind, str):
        raise TypeError("`type` parameter of storage configuration must be a string")
    where = (
        get_sync_path(cluster_id, experiment_id, trial_id)
        if trial_id
        else get_experiment_sync_path(cluster_id, experiment_id)
    )
    arguments = (get_base_path(checkpoint_config), where, async_upload, sync_on_close)
    if kind == "shared_fs":
        host, storage = checkpoint_config["host_path"], checkpoint_config.get("storage_path")
        path = full_storage_path(host, storage, container_path)
        return SharedFSTensorboardManager(path, *arguments)
    if kind == "directory":
        return DirectoryTensorboardManager(checkpoint_config["container_path"], *arguments)
    if kind not in _CLOUDS:
        raise TypeError(f"Unknown storage type: {kind}")
    manager, needed, optional = _CLOUDS[kind]
    own = [checkpoint_config.get(key) for key in optional]
    return manager(checkpoint_config[needed], *own, *arguments)


_CLOUDS: dict[str, tuple[Callable[..., TensorboardManager], str, tuple[str, ...]]] = {
    "s3": (
        S3TensorboardManager,
        "bucket",
        ("access_key", "secret_key", "endpoint_url", "prefix"),
    ),
    "gcs": (GCSTensorboardManager, "bucket", ("prefix",)),
    "azure": (
        AzureTensorboardManager,
        "container",
        ("connection_string", "account_url", "credential"),
    ),
}

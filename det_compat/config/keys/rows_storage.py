"""The keys of ``checkpoint_storage``."""

from __future__ import annotations

from det_compat.config.keys.kinds import ANYTHING, SECTION, TEXT, integer, one_of
from det_compat.config.keys.table import Key, ignored, mapped, refused

#: what each type cannot do without
REQUIRED = {
    "shared_fs": ("host_path",),
    "directory": ("container_path",),
    "s3": ("bucket",),
    "gcs": ("bucket",),
    "azure": ("container",),
    "hdfs": (),
}
_CONTAINER = "where a container of the cluster had it"
_HDFS = "hdfs storage is not supported: Determined itself gave it up"
_CONTENT = "never shown"


def _at(name: str) -> str:
    return f"checkpoint_storage.{name}"


ROWS: tuple[Key, ...] = (
    mapped("checkpoint_storage", SECTION, "0.12", "where checkpoints go, and how many are kept"),
    mapped(
        _at("type"),
        one_of(*REQUIRED),
        "0.12",
        "kind of storage, reached through fsspec; "
        "without one, checkpoints go to the run directory; hdfs is refused",
    ),
    mapped(_at("save_experiment_best"), integer(0), "0.12", "best checkpoints kept of all trials"),
    mapped(_at("save_trial_best"), integer(0), "0.12", "best checkpoints kept of a trial (1)"),
    mapped(_at("save_trial_latest"), integer(0), "0.12", "latest checkpoints kept of a trial (1)"),
    mapped(_at("host_path"), TEXT, "0.12", "directory of shared_fs"),
    mapped(_at("storage_path"), TEXT, "0.12", "directory in `host_path`"),
    mapped(
        _at("container_path"),
        TEXT,
        "0.12",
        f"path of directory; with shared_fs ignored: {_CONTAINER}",
    ),
    ignored(_at("checkpoint_path"), TEXT, "0.12 to 0.17", _CONTAINER),
    ignored(_at("tensorboard_path"), TEXT, "0.12 to 0.17", _CONTAINER),
    ignored(_at("propagation"), TEXT, "0.12", "of the container's mount"),
    mapped(_at("bucket"), TEXT, "0.12", "bucket of s3 or gcs"),
    mapped(_at("prefix"), TEXT, "0.18", "path in the bucket"),
    mapped(_at("access_key"), TEXT, "0.12", f"credential of s3, {_CONTENT}"),
    mapped(_at("secret_key"), TEXT, "0.12", f"credential of s3, {_CONTENT}"),
    mapped(_at("endpoint_url"), TEXT, "0.12", "address of an s3 that is not Amazon's"),
    mapped(_at("container"), TEXT, "0.17", "container of azure"),
    mapped(_at("connection_string"), TEXT, "0.17", f"credential of azure, {_CONTENT}"),
    mapped(_at("account_url"), TEXT, "0.17", "account of azure"),
    mapped(_at("credential"), TEXT, "0.17", f"credential of azure, {_CONTENT}"),
    refused(_at("hdfs_url"), TEXT, "0.12", _HDFS),
    refused(_at("hdfs_path"), TEXT, "0.12", _HDFS),
    refused(_at("user"), TEXT, "0.12", _HDFS),
    ignored("tensorboard_storage", ANYTHING, "0.12", "event files go to the run directory"),
    ignored("data_layer", ANYTHING, "0.12", "cached the data of TensorFlow trials"),
)

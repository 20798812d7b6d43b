from __future__ import annotations

from typing import Any

import pytest

from det_compat.config import ConfigError
from det_compat.config.storage import CheckpointStorage
from tests.config.samples import parsed


def storage(**keys: Any) -> CheckpointStorage:
    return parsed(checkpoint_storage=keys).checkpoint_storage


@pytest.mark.parametrize(
    ("keys", "url"),
    [
        ({"type": "shared_fs", "host_path": "/a"}, "file:///a"),
        ({"type": "shared_fs", "host_path": "/a/", "storage_path": "b"}, "file:///a/b"),
        ({"type": "shared_fs", "host_path": "/a", "storage_path": "/a/c"}, "file:///a/c"),
        ({"type": "shared_fs", "host_path": "/", "storage_path": "/a"}, "file:///a"),
        ({"type": "directory", "container_path": "/d"}, "file:///d"),
        ({"type": "s3", "bucket": "b"}, "s3://b"),
        ({"type": "s3", "bucket": "b", "prefix": "/a/.//c/"}, "s3://b/a/c"),
        ({"type": "gcs", "bucket": "b", "prefix": "p"}, "gs://b/p"),
        ({"type": "azure", "container": "c", "connection_string": "x"}, "abfs://c"),
    ],
)
def test_urls(keys: dict[str, Any], url: str) -> None:
    assert storage(**keys).url == url


def test_options_hold_the_secrets_and_repr_does_not() -> None:
    s3 = storage(type="s3", bucket="b", access_key="a", secret_key="k", endpoint_url="http://h")
    assert s3.options == {"key": "a", "secret": "k", "endpoint_url": "http://h"}
    assert "secret" not in repr(s3)
    azure = storage(
        type="azure", container="c", account_url="https://me.blob.core.windows.net", credential="k"
    )
    assert azure.options == {
        "account_name": "me",
        "account_host": "me.blob.core.windows.net",
        "credential": "k",
    }


def test_refusals() -> None:
    assert "hdfs" in str(storage(type="hdfs", hdfs_url="h", hdfs_path="/p").refusal)
    incomplete = parsed(checkpoint_storage={"type": "s3"})
    assert "has no bucket" in incomplete.refused["checkpoint_storage.type"]
    untyped = parsed(checkpoint_storage={"bucket": "b", "save_trial_best": 2})
    assert "add type: s3 or gcs" in untyped.refused["checkpoint_storage.bucket"]
    assert storage(save_trial_best=2) == storage()


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"type": "ftp"}, "found 'ftp', expected one of shared_fs"),
        ({"type": "s3", "bucket": "b", "prefix": "a/../b"}, "a path without"),
        ({"type": "shared_fs", "host_path": "/a", "storage_path": "/ab"}, "a directory in host"),
        ({"type": "shared_fs", "host_path": "/a", "storage_path": "../b"}, "a directory in host"),
        (
            {"type": "azure", "container": "c", "connection_string": "x", "credential": "y"},
            "credential next to connection_string",
        ),
    ],
)
def test_what_is_wrong(keys: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        storage(**keys)

"""Copies to object stores, by clients that note what they are told."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest

from det_compat import tensorboard

CONFIGS: dict[str, dict[str, Any]] = {
    "s3": {"bucket": "b", "prefix": "/in/here/", "endpoint_url": "http://x"},
    "gcs": {"bucket": "b", "prefix": "in/here"},
    "azure": {"container": "b/", "connection_string": "secret"},
}
BELOW = "cluster/tensorboard/experiment/1/trial/2"
LIBRARIES = {
    "s3": ["boto3"],
    "gcs": ["google", "google.cloud", "google.cloud.storage"],
    "azure": ["azure", "azure.storage", "azure.storage.blob"],
}


@pytest.fixture(params=CONFIGS)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    for name in LIBRARIES[request.param]:
        monkeypatch.setitem(sys.modules, name, MagicMock())
    for above, below in itertools.pairwise(LIBRARIES[request.param]):
        setattr(sys.modules[above], below.rpartition(".")[2], sys.modules[below])
    return str(request.param)


def manager_of(kind: str, folder: Path) -> Any:
    config = {"type": kind, "base_path": str(folder), **CONFIGS[kind]}
    manager = tensorboard.build("cluster", "1", "2", config, async_upload=False)
    manager.base_path.mkdir(parents=True)
    (manager.base_path / "events").write_text("written")
    return manager


def test_files_are_copied_below_the_prefix(kind: str, tmp_path: Path) -> None:
    manager = manager_of(kind, tmp_path)
    manager.sync()
    file, name = str(manager.base_path / "events"), f"{BELOW}/events"
    if kind == "s3":
        manager.client.upload_file.assert_called_once_with(file, "b", f"in/here/{name}")
    elif kind == "gcs":
        manager.bucket.blob.assert_called_once_with(f"in/here/{name}")
        manager.bucket.blob().upload_from_filename.assert_called_once_with(file)
    else:
        assert manager.client.upload_blob.call_args.args[0] == name


def test_what_was_copied_is_deleted(kind: str, tmp_path: Path) -> None:
    manager = manager_of(kind, tmp_path)
    manager.client.list_blobs.return_value = [MagicMock()]
    manager.delete()
    if kind == "s3":
        objects = manager.resource.Bucket("b").objects
        objects.filter.assert_called_once_with(Prefix=f"in/here/{BELOW}")
    elif kind == "gcs":
        manager.bucket.list_blobs.assert_called_once_with(prefix=f"in/here/{BELOW}")
    else:
        manager.client.list_blobs.assert_called_once_with(name_starts_with=BELOW)
        manager.client.delete_blob.assert_called_once()


def test_a_library_that_is_missing_is_named(
    kind: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in LIBRARIES[kind]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError, match=r"pip install (boto3|google-cloud-s|azure-storage-blob)"):
        manager_of(kind, tmp_path)

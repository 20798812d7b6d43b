"""Storage managers do on this machine and in a store what Determined's do on a shared disk."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from det_compat.common.check import CheckFailedError
from det_compat.core import storage
from det_compat.core.storage.directory_managers import copytree
from det_compat.errors import CheckpointNotFound, UnfinishedCheckpointError

FILES = {"root.txt": "root", "sub/": None, "sub/a.txt": "a", "sub/b.txt": "b", "empty/": None}
Make = Callable[[], storage.StorageManager]


def write(folder: Path) -> None:
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(exist_ok=True) if text is None else path.write_text(text)


def content(folder: Path) -> dict[str, str | None]:
    return {
        f"{path.relative_to(folder)}/" if path.is_dir() else str(path.relative_to(folder)): (
            None if path.is_dir() else path.read_text()
        )
        for path in folder.rglob("*")
    }


@pytest.fixture(params=["directory", "store"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[storage.StorageManager]:
    if request.param == "directory":
        yield storage.SharedFSStorageManager(str(tmp_path / "base"))
    else:
        import fsspec

        (tmp_path / "copies").mkdir()
        url = f"memory://{uuid.uuid4()}"
        yield storage.CloudStorageManager(url, temp_dir=str(tmp_path / "copies"))
        fsspec.filesystem("memory").rm("/", recursive=True)
        assert [*(tmp_path / "copies").iterdir()] == []


def test_what_is_stored_is_restored_and_deleted(manager: storage.StorageManager) -> None:
    with manager.store_path("one") as path:
        write(path)
    with manager.restore_path("one") as path:
        assert content(path) == FILES
    assert manager.delete("one", ["**/*"]) == {}
    with pytest.raises(CheckpointNotFound, match="one"), manager.restore_path("one"):
        pass
    manager.delete("one", ["**/*"])
    storage.validate_manager(manager)


def test_parts_are_uploaded_and_downloaded(manager: storage.StorageManager, tmp_path: Path) -> None:
    write(tmp_path / "source")
    manager.upload(tmp_path / "source", "all")
    manager.upload(tmp_path / "source", "part", paths={"sub/a.txt", "empty/"})
    manager.download("all", tmp_path / "all")
    assert content(tmp_path / "all") == FILES
    manager.download("part", tmp_path / "part")
    assert content(tmp_path / "part") == {"sub/": None, "sub/a.txt": "a", "empty/": None}
    manager.download("all", tmp_path / "chosen", selector=lambda path: path == "sub/b.txt")
    assert content(tmp_path / "chosen") == {"sub/": None, "sub/b.txt": "b"}
    with pytest.raises(CheckpointNotFound):
        manager.download("none", tmp_path / "none")


@pytest.mark.parametrize(
    ("globs", "left"),
    [
        (["empty/*", "sub/*"], {"empty/": 0, "sub/": 0, "root.txt": 4}),
        (["sub"], {"root.txt": 4, "empty/": 0}),
        (["**/*.txt"], {"empty/": 0, "sub/": 0}),
        (["**.txt"], {"empty/": 0, "sub/": 0, "sub/a.txt": 1, "sub/b.txt": 1}),
        (["root.txt", "sub", "empty"], {}),
    ],
)
def test_globs_delete_parts(
    manager: storage.StorageManager, tmp_path: Path, globs: list[str], left: dict[str, int]
) -> None:
    write(tmp_path / "source")
    manager.upload(tmp_path / "source", "one")
    assert manager.delete("one", globs) == left


def test_nothing_outside_of_a_checkpoint_is_deleted(tmp_path: Path) -> None:
    manager = storage.SharedFSStorageManager(str(tmp_path))
    (tmp_path / "keep.txt").write_text("mine")
    write(tmp_path / "one")
    manager.delete("one", ["../*"])
    assert (tmp_path / "keep.txt").exists() and content(tmp_path / "one") == FILES


def test_what_was_not_finished_is_told_apart(tmp_path: Path) -> None:
    manager = storage.SharedFSStorageManager(str(tmp_path))
    write(manager.pre_store_path("one"))  # and here the process was killed
    with (
        pytest.raises(UnfinishedCheckpointError, match="not complete"),
        manager.restore_path("one"),
    ):
        pass
    with pytest.raises(UnfinishedCheckpointError):
        manager.download("one", tmp_path / "copy")


def test_links_are_followed(tmp_path: Path) -> None:
    write(tmp_path / "source")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "sub").symlink_to(tmp_path / "source" / "sub")
    copytree(str(tmp_path / "links"), str(tmp_path / "copy"))
    assert content(tmp_path / "copy") == {"sub/": None, "sub/a.txt": "a", "sub/b.txt": "b"}


CONFIGS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({}, ValueError, "Missing 'type'"),
    ({"type": 4}, ValueError, "must be a string"),
    ({"type": "tape"}, TypeError, "Unknown storage type: tape"),
    ({"type": "shared_fs", "hostpath": "/a"}, CheckFailedError, "hostpath"),
    ({"type": "shared_fs"}, CheckFailedError, "missing host_path"),
    ({"type": "shared_fs", "host_path": "a"}, CheckFailedError, "absolute"),
    ({"type": "shared_fs", "host_path": "/a", "storage_path": "../b"}, CheckFailedError, "subdir"),
    ({"type": "azure", "container": "c"}, ValueError, "connection_string"),
    ({"type": "s3"}, TypeError, "Failed to instantiate s3"),
    ({"type": "s3", "bucket": "b", "prefix": "../x"}, ValueError, "prefix must not match"),
]


@pytest.mark.parametrize(("config", "kind", "text"), CONFIGS)
def test_configs_that_cannot_be_used(
    config: dict[str, Any], kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text):
        storage.build(config, None)


def test_places_are_found_as_determined_finds_them(tmp_path: Path) -> None:
    reference = pytest.importorskip("determined.common.storage")
    for config in (
        {"type": "shared_fs", "host_path": "/host", "storage_path": "in", "save_trial_best": 1},
        {"type": "shared_fs", "host_path": "/host", "checkpoint_path": "old"},
        {"type": "directory", "container_path": "/dir"},
    ):
        for container in (None, "/container"):
            ours, theirs = (api.build(config, container) for api in (storage, reference))
            assert ours._base_path == theirs._base_path
    assert storage.from_string(f"file://{tmp_path}")._base_path == str(tmp_path)
    for bad in ("scheme://bucket/prefix?query", "file://host:1/a", "localhost:1234/a"):
        for api in (storage, reference):
            with pytest.raises(ValueError):
                api.from_string(bad)

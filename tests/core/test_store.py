from __future__ import annotations

import datetime
import errno
import json
import logging
import pickle
import uuid
from pathlib import Path
from typing import Any

import fsspec
import pytest

from det_compat.core import CheckpointStore
from det_compat.core.storage.local import LocalStorage
from det_compat.core.store import (
    CompleteCheckpoint,
    default_base_path,
    metadata_text,
    read_metadata,
)
from det_compat.errors import (
    CheckpointWriteError,
    CorruptCheckpointError,
    UnfinishedCheckpointError,
)
from tests.core import disk_filesystem


@pytest.fixture(params=["local", "memory", "disk"])
def base(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where checkpoints go: a directory of this machine, and two that fsspec reaches."""
    if request.param == "local":
        return str(tmp_path / "base")
    disk_filesystem.register()
    # What is in memory outlives the folder, whose name another test may get.
    return f"{request.param}://{tmp_path}/{uuid.uuid4().hex}"


def store(context: CheckpointStore, steps: Any = 0, content: str = "x", **metadata: Any) -> str:
    with context.store_path({"steps_completed": steps, **metadata}) as (path, storage_id):
        (path / "code").mkdir()
        (path / "code" / "model_def.py").write_text(content)
        (path / "state").write_text(content)
    return storage_id


def steps(context: CheckpointStore) -> list[int | None]:
    return [checkpoint.steps_completed for checkpoint in context.list()]


def test_store_path_makes_a_directory_named_by_a_uuid(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "determined.core")
    context = CheckpointStore(tmp_path / "checkpoints")
    with context.store_path({"steps_completed": 7}) as (path, storage_id):
        assert str(uuid.UUID(storage_id)) == storage_id
        assert path == tmp_path / "checkpoints" / storage_id and path.is_dir()
        assert not (path / "metadata.json").exists()
        (path / "state").write_text("x")
    metadata = json.loads((path / "metadata.json").read_text())
    datetime.datetime.fromisoformat(metadata.pop("saved_at"))
    assert metadata == {"steps_completed": 7}
    assert sorted(file.name for file in path.iterdir()) == ["metadata.json", "state"]
    assert str(path) in caplog.text


def test_two_checkpoints_are_two_directories(tmp_path: Path) -> None:
    context = CheckpointStore(str(tmp_path))
    with context.store_path({}) as (first, _), context.store_path({}) as (second, _):
        assert first != second


def test_find_takes_a_uuid_or_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = CheckpointStore(tmp_path / "base")
    with context.store_path({}) as (path, storage_id):
        pass
    assert context.find(storage_id) == path
    assert context.find(str(path)) == path
    monkeypatch.chdir(tmp_path)
    assert context.find(f"base/{storage_id}").resolve() == path


def test_find_says_where_it_looked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError) as caught:
        CheckpointStore(tmp_path / "base").find("0000")
    assert "'0000'" in str(caught.value)
    assert str(tmp_path / "0000") in str(caught.value)
    assert str(tmp_path / "base" / "0000") in str(caught.value)


def test_what_is_stored_is_found(base: str) -> None:
    context = CheckpointStore(base)
    storage_id = store(context, 3, content="content")
    for reader in (context, CheckpointStore(base)):
        path = reader.find(storage_id)
        assert path.name == storage_id
        assert (path / "state").read_text() == "content"
        assert (path / "code" / "model_def.py").read_text() == "content"
        assert json.loads((path / "metadata.json").read_text())["steps_completed"] == 3
        assert reader.find(storage_id) == path


def test_find_takes_a_url(base: str, tmp_path: Path) -> None:
    storage_id = store(CheckpointStore(base), content="content")
    url = base if "://" in base else f"file://{base}"
    for context in (CheckpointStore(base), CheckpointStore(tmp_path / "other")):
        assert (context.find(f"{url}/{storage_id}") / "state").read_text() == "content"
    with pytest.raises(FileNotFoundError, match="0000"):
        CheckpointStore(tmp_path).find(f"{url}/0000")


def test_a_file_url_is_a_directory_of_this_machine(tmp_path: Path) -> None:
    context = CheckpointStore(f"file://{tmp_path}/base")
    assert context.base_path == tmp_path / "base"
    with context.store_path({}) as (path, storage_id):
        assert path == tmp_path / "base" / storage_id


def test_a_relative_directory_stays_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    context = CheckpointStore("base")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    assert context.find(store(context)).parent == tmp_path / "base"


def test_the_latest_is_that_of_most_batches_then_the_last_saved(base: str) -> None:
    context = CheckpointStore(base)
    assert context.latest() is None and context.list() == []
    for number in (20, 100, 3, None, True):
        store(context, number)
    last = store(context, 100)
    assert steps(context) == [None, None, 3, 20, 100, 100]
    latest = CheckpointStore(base).latest()
    assert latest is not None and latest.uuid == last and latest.steps_completed == 100
    assert latest.metadata["steps_completed"] == 100
    first = store(context, 100, saved_at="2000-01-01T00:00:00")
    assert latest == context.latest() and context.list()[-3].uuid == first


@pytest.mark.parametrize(
    "content", ["", "{", "[1]", "\x00" * 30, '{"steps_completed": 1', "[" * 9999]
)
def test_corrupt_metadata(
    base: str, content: str, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    context = CheckpointStore(base)
    good, bad = store(context, 1), store(context, 2)
    write(base, f"{bad}/metadata.json", content)
    assert steps(context) == [1]
    assert bad in caplog.text and "metadata.json" in caplog.text
    latest = context.latest()
    assert latest is not None and latest.uuid == good
    with pytest.raises(CorruptCheckpointError, match=f"{bad} is corrupt"):
        context.find(bad)
    context.delete(bad)
    assert not exists(base, bad)


def test_metadata_that_may_not_be_read(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    context = CheckpointStore(tmp_path)
    good = store(context, 1)
    (tmp_path / str(uuid.uuid4()) / "metadata.json").mkdir(parents=True)
    assert [checkpoint.uuid for checkpoint in context.list()] == [good]
    assert "metadata.json" in caplog.text


def test_an_unfinished_checkpoint_is_told_apart_from_a_missing_one(base: str) -> None:
    context = CheckpointStore(base)
    unfinished = str(uuid.uuid4())
    write(base, f"{unfinished}/state", "half")
    assert context.list() == [] and context.latest() is None
    store(context)
    assert context.unfinished() == [unfinished]
    with pytest.raises(UnfinishedCheckpointError, match=rf"{unfinished} has no metadata.json"):
        context.find(unfinished)
    with pytest.raises(FileNotFoundError, match="found no checkpoint"):
        context.find(str(uuid.uuid4()))
    context.delete(unfinished)
    assert not exists(base, unfinished)


def test_the_path_of_an_unfinished_checkpoint(tmp_path: Path) -> None:
    context = CheckpointStore(tmp_path)
    with context.store_path({}) as (path, _):
        (path / "state").touch()
        with pytest.raises(UnfinishedCheckpointError, match=str(path)):
            context.find(path)
    assert context.find(path) == path


def test_a_directory_of_any_origin_is_found_by_its_path(tmp_path: Path) -> None:
    (tmp_path / "download").mkdir()
    (tmp_path / "download" / "checkpoint.pt").touch()
    assert CheckpointStore().find(tmp_path / "download") == tmp_path / "download"


@pytest.mark.parametrize("name", ["", "file", "no/such/directory"])
def test_what_is_no_checkpoint(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(FileNotFoundError, match=f"found no checkpoint '{name}'"):
        CheckpointStore(tmp_path / "base").find(name)


def test_only_checkpoints_are_listed_and_deleted(base: str) -> None:
    context = CheckpointStore(base)
    write(base, "thesis/metadata.json", "{}")
    write(base, "notes.txt", "")
    storage_id = store(context)
    assert [checkpoint.uuid for checkpoint in context.list()] == [storage_id]
    for name in ("thesis", "", ".", "..", "../base", storage_id.upper()):
        with pytest.raises(ValueError, match="by their UUID"):
            context.delete(name)
    context.delete(storage_id)
    with pytest.raises(FileNotFoundError, match=storage_id):
        context.delete(storage_id)
    assert exists(base, "thesis/metadata.json") and not exists(base, storage_id)


def test_a_linked_checkpoint_is_not_deleted_itself(tmp_path: Path) -> None:
    context = CheckpointStore(tmp_path / "other")
    original = context.find(store(context))
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / original.name).symlink_to(original)
    CheckpointStore(tmp_path / "base").delete(original.name)
    assert list((tmp_path / "base").iterdir()) == []
    assert (original / "metadata.json").exists()


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "disk full"), OSError("disk full")])
def test_a_failure_removes_what_was_written(base: str, error: OSError) -> None:
    context = CheckpointStore(base)
    previous = store(context)
    with pytest.raises(CheckpointWriteError) as caught, context.store_path({}) as (path, name):
        (path / "state").write_text("half")
        raise error
    assert name in str(caught.value) and "disk full" in str(caught.value)
    assert f"{previous}, is kept" in str(caught.value)
    assert caught.value.__cause__ is error and caught.value.errno == error.errno
    assert not path.exists() and not exists(base, name) and exists(base, previous)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize(
    "error",
    [
        KeyboardInterrupt(),
        ValueError("a callback's own"),
        RuntimeError("a callback's own"),
        ConnectionRefusedError(errno.ECONNREFUSED, "a callback's own"),
        FileNotFoundError(errno.ENOENT, "a callback's own", "/its/own/file"),
    ],
)
def test_errors_of_user_code_stay_as_they_are(base: str, error: BaseException) -> None:
    context = CheckpointStore(base)
    with pytest.raises(type(error)) as caught, context.store_path({}) as (path, name):
        (path / "state").write_text("half")
        raise error
    assert caught.value is error
    assert not path.exists() and not exists(base, name)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(1), OSError("late")])
def test_what_is_complete_outlives_an_interrupt(
    base: str, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = CheckpointStore(base)
    commit = context._storage.commit

    def interrupted(storage_id: str, metadata: str) -> None:
        commit(storage_id, metadata)
        raise error

    monkeypatch.setattr(context._storage, "commit", interrupted)
    expected = CheckpointWriteError if isinstance(error, OSError) else type(error)
    with pytest.raises(expected), context.store_path({}) as (path, name):
        (path / "state").write_text("whole")
    assert [found.uuid for found in context.list()] == [name]
    assert (context.find(name) / "state").read_text() == "whole"


def test_metadata_that_is_no_json(base: str) -> None:
    context = CheckpointStore(base)
    with pytest.raises(TypeError), context.store_path({"a": object()}) as (path, name):
        pass
    assert not path.exists() and not exists(base, name)


def test_a_folder_in_place_of_the_metadata(base: str) -> None:
    context = CheckpointStore(base)
    says = r"Is a directory.*It was removed"
    with pytest.raises(CheckpointWriteError, match=says), context.store_path({}) as (path, name):
        (path / "metadata.json").mkdir()
    assert not path.exists() and not exists(base, name) and context.list() == []


def test_options_are_for_urls(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"storage_options are for URLs.*base"):
        CheckpointStore(tmp_path / "base", {"endpoint_url": "http://localhost"})


@pytest.mark.parametrize("is_set", [True, False])
def test_local_checkpoints_are_where_determined_keeps_them(
    is_set: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # determined asks this package
    appdirs = pytest.importorskip("appdirs")
    if is_set:
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    else:
        monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    assert CheckpointStore().base_path == Path(appdirs.user_data_dir("determined"))


def write(base: str, name: str, content: str) -> None:
    filesystem, path = fsspec.url_to_fs(base)
    filesystem.makedirs(f"{path}/{name}".rpartition("/")[0], exist_ok=True)
    filesystem.pipe_file(f"{path}/{name}", content.encode())


def exists(base: str, name: str) -> bool:
    filesystem, path = fsspec.url_to_fs(base)
    return filesystem.exists(f"{path}/{name}")


@pytest.mark.parametrize(
    "metadata, steps, saved_at",
    [
        ({"steps_completed": 3, "saved_at": "2026"}, 3, "2026"),
        ({}, None, ""),
        ({"steps_completed": "3", "saved_at": 2026}, None, ""),
        ({"steps_completed": True}, None, ""),
        ({"steps_completed": None, "saved_at": None}, None, ""),
    ],
)
def test_what_metadata_says(metadata: dict[str, Any], steps: int | None, saved_at: str) -> None:
    checkpoint = CompleteCheckpoint("a", metadata)
    assert (checkpoint.steps_completed, checkpoint.saved_at) == (steps, saved_at)
    assert hash(checkpoint) == hash(CompleteCheckpoint("a", {}))


def test_the_time_of_saving_is_added() -> None:
    metadata = json.loads(metadata_text({"steps_completed": 3}))
    now = datetime.datetime.now(datetime.timezone.utc)
    age = now - datetime.datetime.fromisoformat(metadata["saved_at"])
    assert datetime.timedelta(0) <= age < datetime.timedelta(minutes=1)
    assert json.loads(metadata_text({"saved_at": "then"})) == {"saved_at": "then"}


def test_metadata_is_read(tmp_path: Path) -> None:
    storage = LocalStorage(tmp_path)
    assert read_metadata(storage, "a") is None
    (tmp_path / "a").mkdir()
    assert read_metadata(storage, "a") is None
    (tmp_path / "a" / "metadata.json").write_text('{"b": 1}')
    assert read_metadata(storage, "a") == {"b": 1}
    (tmp_path / "a" / "metadata.json").write_bytes(b"\xff\xfe")
    with pytest.raises(CorruptCheckpointError, match=r"metadata.json is no JSON"):
        read_metadata(storage, "a")


def test_a_user_without_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import appdirs

    monkeypatch.chdir(tmp_path)
    for name in ("HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", {}.__getitem__)
    assert default_base_path() == tmp_path / appdirs.user_data_dir("determined")
    assert CheckpointStore().base_path == tmp_path / "~/.local/share/determined"

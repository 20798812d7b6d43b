from __future__ import annotations

import json
import logging
import uuid
from pathlib import Path

import pytest

from det_compat.core import CheckpointContext


def test_store_path_makes_a_directory_named_by_a_uuid(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "determined.core")
    context = CheckpointContext(tmp_path / "checkpoints")
    with context.store_path({"steps_completed": 7}) as (path, storage_id):
        assert str(uuid.UUID(storage_id)) == storage_id
        assert path == tmp_path / "checkpoints" / storage_id and path.is_dir()
        assert not (path / "metadata.json").exists()
        (path / "state").write_text("x")
    assert json.loads((path / "metadata.json").read_text()) == {"steps_completed": 7}
    assert str(path) in caplog.text


def test_two_checkpoints_are_two_directories(tmp_path: Path) -> None:
    context = CheckpointContext(str(tmp_path))
    with context.store_path({}) as (first, _), context.store_path({}) as (second, _):
        assert first != second


def test_a_checkpoint_that_failed_has_no_metadata(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="disk"), CheckpointContext(tmp_path).store_path({}):
        raise OSError("disk full")
    (unfinished,) = tmp_path.iterdir()
    assert list(unfinished.iterdir()) == []


def test_find_takes_a_uuid_or_a_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = CheckpointContext(tmp_path / "base")
    with context.store_path({}) as (path, storage_id):
        pass
    assert context.find(storage_id) == path
    assert context.find(str(path)) == path
    monkeypatch.chdir(tmp_path)
    assert context.find(f"base/{storage_id}").resolve() == path


def test_find_says_where_it_looked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError) as caught:
        CheckpointContext(tmp_path / "base").find("0000")
    assert "'0000'" in str(caught.value)
    assert str(tmp_path / "0000") in str(caught.value)
    assert str(tmp_path / "base" / "0000") in str(caught.value)


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
    assert CheckpointContext().base_path == Path(appdirs.user_data_dir("determined"))

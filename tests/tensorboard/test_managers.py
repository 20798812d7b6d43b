from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from det_compat import tensorboard
from det_compat.tensorboard.names import find_tb_files, get_rank_aware_path

PATHS = [
    "/tb/host.memory_profile.json.gz",
    "/tb/host.some-extension.gz",
    "/tb/worker_37.1674696139174.pt.trace.json",
    "worker_37.pt.trace.json.gz",
    "2022/ip-172-31.input_pipeline.pb",
    "events.out.tfevents.1",
]


@pytest.mark.parametrize("path", PATHS)
def test_files_of_profilers_get_the_rank(path: str) -> None:
    reference = pytest.importorskip("determined.tensorboard.util")
    assert get_rank_aware_path(Path(path), 3) == reference.get_rank_aware_path(Path(path), 3)


def test_files_that_tensorboard_shows(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for name in ("events.out.tfevents.1", "in/graph.pb", "notes.txt"):
        (tmp_path / name).touch()
    assert {path.name for path in find_tb_files(tmp_path)} == {"events.out.tfevents.1", "graph.pb"}


@pytest.mark.parametrize("async_upload", [False, True])
def test_what_is_new_is_copied(tmp_path: Path, async_upload: bool) -> None:
    config = {"type": "shared_fs", "host_path": str(tmp_path), "base_path": str(tmp_path / "tb")}
    manager = tensorboard.build("c", "1", "2", config, async_upload=async_upload)
    assert isinstance(manager, tensorboard.SharedFSTensorboardManager)
    assert manager.base_path == tensorboard.get_base_path(config)
    manager.base_path.mkdir(parents=True)
    with manager:
        (manager.base_path / "w.pt.trace.json").write_text("1")
        manager.sync(mangler=get_rank_aware_path, rank=1)
        (manager.base_path / "events").write_text("2")
        os.utime(manager.base_path / "events")
        manager.sync()  # too soon after the last
    copied = {path.name: path.read_text() for path in manager.shared_fs_base.iterdir()}
    assert copied.pop("events") == "2"
    assert copied["w#1.pt.trace.json"] == "1"
    assert manager.shared_fs_base == tmp_path / tensorboard.get_sync_path("c", "1", "2")
    manager.delete()
    assert not manager.shared_fs_base.exists()


def test_a_copy_that_fails_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    config = {"type": "directory", "container_path": str(tmp_path), "base_path": str(tmp_path)}
    manager: Any = tensorboard.build("c", "1", None, config)
    manager.base_path.mkdir(parents=True)
    (manager.base_path / "events").touch()

    def fail(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("det_compat.tensorboard.managers.shutil.copy", fail)
    with manager:
        pass
    assert "disk full" in caplog.text


@pytest.mark.parametrize(
    ("config", "text"),
    [({}, "Missing 'type'"), ({"type": 4}, "string"), ({"type": "x"}, "Unknown storage type: x")],
)
def test_configs_that_cannot_be_used(config: dict[str, Any], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        tensorboard.build("c", "1", "2", config)
    with pytest.raises(KeyError, match="bucket"):
        tensorboard.build("c", "1", "2", {"type": "s3"})

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from det_compat.core import durable


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is flushed and renamed, in order."""
    noted: list[str] = []

    def note(name: str, describe: Callable[..., str]) -> None:
        real = getattr(os, name)

        def noting(*args: Any) -> Any:
            noted.append(describe(*args))
            return real(*args)

        monkeypatch.setattr(durable.os, name, noting)

    note("fsync", lambda descriptor: Path(f"/proc/self/fd/{descriptor}").resolve().name)
    note("replace", lambda source, target: f"{source.name} > {target.name}")
    return noted


def test_content_is_on_the_disk_before_it_has_its_name(tmp_path: Path, calls: list[str]) -> None:
    durable.write_durably(tmp_path / "file", "content", temporary=tmp_path / "temporary")
    assert (tmp_path / "file").read_text() == "content"
    assert calls == ["temporary", "temporary > file", tmp_path.name]
    assert os.listdir(tmp_path) == ["file"]


def test_everything_in_a_tree_is_flushed(tmp_path: Path, calls: list[str]) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    for name in ("one", "a/two", "a/b/three"):
        (tmp_path / name).touch()
    (tmp_path / "dangling").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    durable.sync_tree(tmp_path)
    assert sorted(calls) == sorted(["one", "two", "three", "a", "b", tmp_path.name])


@pytest.mark.parametrize("number, is_error", [(errno.EINVAL, False), (errno.ENOSPC, True)])
def test_a_filesystem_that_cannot_flush(
    number: int, is_error: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(durable.os, "fsync", fail)
    if is_error:
        with pytest.raises(OSError, match="No space"):
            durable.sync_directory(tmp_path)
    else:
        durable.sync_directory(tmp_path)

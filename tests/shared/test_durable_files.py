from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from det_compat.shared import durable_files
from det_compat.shared.durable_files import append_line, atomic_write
from tests.preloaded import python


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is flushed and renamed, in order."""
    noted: list[str] = []

    def note(name: str, describe: Callable[..., str]) -> None:
        real = getattr(os, name)

        def noting(*args: Any) -> Any:
            noted.append(describe(*args))
            return real(*args)

        monkeypatch.setattr(durable_files.os, name, noting)

    note("fsync", lambda descriptor: Path(f"/proc/self/fd/{descriptor}").resolve().name)
    note("replace", lambda source, target: f"{source.name} > {target.name}")
    return noted


def test_content_is_on_the_disk_before_it_has_its_name(tmp_path: Path, calls: list[str]) -> None:
    durable_files.write_durably(tmp_path / "file", "content", temporary=tmp_path / "temporary")
    assert (tmp_path / "file").read_text() == "content"
    assert calls == ["temporary", "temporary > file", tmp_path.name]
    assert os.listdir(tmp_path) == ["file"]


def test_everything_in_a_tree_is_flushed(tmp_path: Path, calls: list[str]) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    for name in ("one", "a/two", "a/b/three"):
        (tmp_path / name).touch()
    (tmp_path / "dangling").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    durable_files.sync_tree(tmp_path)
    assert sorted(calls) == sorted(["one", "two", "three", "a", "b", tmp_path.name])


@pytest.mark.parametrize("number, is_error", [(errno.EINVAL, False), (errno.ENOSPC, True)])
def test_a_filesystem_that_cannot_flush(
    number: int, is_error: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(durable_files.os, "fsync", fail)
    if is_error:
        with pytest.raises(OSError, match="No space"):
            durable_files.sync(tmp_path)
    else:
        durable_files.sync(tmp_path)


def test_the_file_is_there_at_the_end(tmp_path: Path) -> None:
    target = tmp_path / "new" / "x"
    with atomic_write(target) as file:
        file.write(b"content")
        assert not target.exists()
    assert target.read_bytes() == b"content"
    assert os.listdir(target.parent) == ["x"]


def test_its_mode_is_that_of_any_new_file(tmp_path: Path) -> None:
    with atomic_write(tmp_path / "x") as file:
        file.write(b"")
    (tmp_path / "y").touch()
    assert (tmp_path / "x").stat().st_mode == (tmp_path / "y").stat().st_mode


def test_an_error_keeps_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("before")
    with pytest.raises(KeyError), atomic_write(tmp_path / "x") as file:
        file.write(b"after")
        raise KeyError
    assert (tmp_path / "x").read_text() == "before" and os.listdir(tmp_path) == ["x"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("before")
    (tmp_path / "link").symlink_to("x")
    with atomic_write(tmp_path / "link") as file:
        file.write(b"after")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "x").read_text() == "after"


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for target in (tmp_path, tmp_path / "file" / "x", Path("/proc/none/x")):
        with pytest.raises(OSError) as caught, atomic_write(target):
            pass
        assert caught.value.filename == str(target)


FULL = """
import os, resource, signal, sys, torch
from det_compat.shared.durable_files import atomic_write
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
try:
    with atomic_write("x") as file:
        torch.save({"a": torch.zeros(100_000)}, file)
except OSError as error:
    print(error.filename, open("x").read(), os.listdir("."))
"""


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="no limit of file sizes here")
def test_a_full_disk_keeps_what_was_there(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("before")
    done = python("-c", FULL, cwd=tmp_path, side="neither")
    assert done.stdout == "x before ['x']\n", done.stderr


def test_a_line_after_one_that_was_cut_off(tmp_path: Path) -> None:
    file = tmp_path / "lines"
    append_line(file, "first")
    with file.open("a") as cut:
        cut.write("sec")
    append_line(file, "third")
    assert file.read_text() == "first\nsec\nthird\n"
    with pytest.raises(IsADirectoryError) as caught:
        append_line(tmp_path, "fourth")
    assert caught.value.filename == str(tmp_path)


def test_errors_of_other_files_keep_their_name(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as caught, atomic_write(tmp_path / "x"):
        (tmp_path / "other").read_bytes()
    assert caught.value.filename == str(tmp_path / "other")


def test_errors_of_torch_that_are_not_the_disks(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="mine"), atomic_write(tmp_path / "x") as file:
        torch.save({}, file)
        raise RuntimeError("mine")

from __future__ import annotations

import errno
import os
import resource
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from det_compat.core import CheckpointStore
from det_compat.core.storage.write_failures import named_write_failures
from det_compat.errors import CheckpointWriteError

BIG = 2**20  # bytes


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(disk)]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a file system of 512 kB cannot be mounted here: {error}")
    yield disk
    # torch's writer in C++ keeps a file open that it could not write
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


@pytest.fixture
def small_files() -> Iterator[None]:
    """No file may get larger than 100 kB, as under a quota."""
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    signal.signal(signal.SIGXFSZ, handler)


def write_bytes(path: Path) -> None:
    (path / "state").write_bytes(bytes(BIG))


def save_to_path(path: Path) -> None:
    torch.save(torch.zeros(BIG), path / "state")


def save_to_file(path: Path) -> None:
    with (path / "state").open("wb") as file:
        torch.save(torch.zeros(BIG), file)


def small_then_big(base: Path, write: Callable[[Path], object]) -> CheckpointWriteError:
    """Store a checkpoint that fits and one that does not; the error of the second."""
    context = CheckpointStore(base)
    with context.store_path({"steps_completed": 1}) as (path, previous):
        torch.save(torch.zeros(3), path / "state")
    with (
        pytest.raises(CheckpointWriteError) as caught,
        context.store_path({"steps_completed": 2}) as (path, name),
    ):
        write(path)
    assert str(base / name) in str(caught.value)
    assert f"the previous one, {base / previous}, is kept" in str(caught.value)
    assert os.listdir(base) == [previous]
    latest = CheckpointStore(base).latest()
    assert latest is not None and latest.uuid == previous
    assert torch.load(context.find(previous) / "state").tolist() == [0, 0, 0]
    return caught.value


@pytest.mark.parametrize("write", [write_bytes, save_to_path, save_to_file])
def test_a_full_disk(small_disk: Path, write: Callable[[Path], object]) -> None:
    error = small_then_big(small_disk, write)
    if write is not save_to_path:  # it keeps the file open while there is a traceback
        with CheckpointStore(small_disk).store_path({"steps_completed": 3}):
            pass
    if write is not save_to_path:
        assert error.errno == errno.ENOSPC
        assert "No space left on device" in str(error)


@pytest.mark.parametrize("write", [write_bytes, save_to_path, save_to_file])
def test_a_quota(tmp_path: Path, small_files: None, write: Callable[[Path], object]) -> None:
    error = small_then_big(tmp_path, write)
    if write is not save_to_path:
        assert error.errno == errno.EFBIG


def test_a_disk_that_is_full_when_metadata_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = CheckpointStore(tmp_path)
    with pytest.raises(CheckpointWriteError, match="File too large"), context.store_path({}):
        handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, limits[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    signal.signal(signal.SIGXFSZ, handler)
    assert os.listdir(tmp_path) == []


def test_a_file_in_place_of_the_directory(tmp_path: Path) -> None:
    (tmp_path / "base").touch()
    with (
        pytest.raises(CheckpointWriteError, match=r"base/.* directory.*earlier ones are kept"),
        CheckpointStore(tmp_path / "base").store_path({}),
    ):
        pass


def test_a_directory_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    base = str(tmp_path / "base")
    bind = ["mount", "--bind", base, base]
    try:
        subprocess.run(bind, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a directory cannot be made read-only for root here: {error}")
    try:
        subprocess.run(["mount", "-o", "remount,ro,bind", base], check=True)
        with (
            pytest.raises(CheckpointWriteError, match="Read-only") as caught,
            CheckpointStore(base).store_path({}),
        ):
            pass
        assert caught.value.errno == errno.EROFS
    finally:
        subprocess.run(["umount", base], check=True)


def test_a_directory_that_vanishes(tmp_path: Path) -> None:
    with (
        pytest.raises(CheckpointWriteError, match="No such file"),
        CheckpointStore(tmp_path).store_path({}) as (path, _),
    ):
        path.rename(tmp_path / "elsewhere")
        (path / "state").touch()


def test_an_error_that_names_the_checkpoint_already(tmp_path: Path) -> None:
    error = CheckpointWriteError("a")
    with pytest.raises(CheckpointWriteError) as caught, named_write_failures("b", None):
        raise error
    assert caught.value is error

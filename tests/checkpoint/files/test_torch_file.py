from __future__ import annotations

import collections
import io
import pickle
import random
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from det_compat.checkpoint.files.torch_file import load_torch_file, unsafe_globals
from det_compat.checkpoint.show import describe
from det_compat.errors import (
    CorruptCheckpointError,
    InvalidCheckpointException,
    UnsafeCheckpointError,
)
from tests.checkpoint.makers import REAL, VERSIONS, Evil, save, state

legacy_and_zip = pytest.mark.parametrize("legacy", [False, True], ids=["zip", "legacy"])


@legacy_and_zip
def test_what_determined_stores_is_read(tmp_path: Path, legacy: bool) -> None:
    saved = state()
    loaded = load_torch_file(save(saved, tmp_path / "x", legacy=legacy))
    assert torch.equal(loaded["models_state_dict"][0]["weight"], torch.full((1, 1), 2.0))
    assert loaded["rng_state"]["random_rng_state"] == random.getstate()
    keys = loaded["rng_state"]["np_rng_state"][1]
    assert keys.dtype == np.uint32 and np.array_equal(keys, np.random.get_state()[1])
    np.random.set_state(loaded["rng_state"]["np_rng_state"])


@pytest.mark.parametrize("version", VERSIONS)
def test_files_of_old_versions_are_read(version: str) -> None:
    file = REAL / version / "state_dict.pth"
    if not file.exists():
        pytest.skip(f"no {file}")
    loaded = load_torch_file(file)
    assert loaded["models_state_dict"][0]["weight"].shape == (1, 1)
    assert set(loaded["rng_state"]) == {"cpu_rng_state", "np_rng_state", "random_rng_state"}


@legacy_and_zip
def test_code_is_run_only_for_those_who_trust_it(tmp_path: Path, legacy: bool) -> None:
    made = tmp_path / "made"
    file = save({"x": [Evil(made), collections.deque()]}, tmp_path / "x", legacy=legacy)
    with pytest.raises(UnsafeCheckpointError, match=r"trust=True, .*--trust") as caught:
        load_torch_file(file)
    assert caught.value.asked == ["collections.deque", "posix.mkdir"]
    assert caught.value.path == str(file) and not made.exists()
    with file.open("rb") as opened:
        assert unsafe_globals(opened) == ["collections.deque", "posix.mkdir"]
    load_torch_file(file, trust=True)
    assert made.exists()


def test_weights_only_false_is_trust(tmp_path: Path) -> None:
    file = save({"x": Evil(tmp_path / "made")}, tmp_path / "x")
    with pytest.raises(UnsafeCheckpointError):
        load_torch_file(file, weights_only=True)
    load_torch_file(file, weights_only=False)
    (tmp_path / "made").rmdir()
    load_torch_file(file, trust=True, weights_only=True)
    assert (tmp_path / "made").exists()


def test_a_pickle_that_torch_did_not_write(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(pickle.dumps(Evil(tmp_path / "made")))
    with pytest.raises(UnsafeCheckpointError, match=r"posix\.mkdir"):
        load_torch_file(file)
    assert not (tmp_path / "made").exists()


def test_what_the_user_allows_stays_allowed(tmp_path: Path) -> None:
    file = save({"x": collections.deque()}, tmp_path / "x")
    before = torch.serialization.get_safe_globals()
    torch.serialization.add_safe_globals([collections.deque, np.dtype, np.ndarray])
    try:
        assert load_torch_file(file)["x"] == collections.deque()
        assert collections.deque in torch.serialization.get_safe_globals()
        load_torch_file(save(state(), tmp_path / "y"))
    finally:
        torch.serialization.clear_safe_globals()
        torch.serialization.add_safe_globals(before)
    assert {*torch.serialization.get_safe_globals()} == {*before}


@legacy_and_zip
def test_another_pickle_protocol_is_refused(tmp_path: Path, legacy: bool) -> None:
    torch.save(
        {"a": 1}, tmp_path / "x", pickle_protocol=4, _use_new_zipfile_serialization=not legacy
    )
    with pytest.raises(UnsafeCheckpointError, match="Unsupported operand"):
        load_torch_file(tmp_path / "x")
    assert load_torch_file(tmp_path / "x", trust=True) == {"a": 1}


@legacy_and_zip
@pytest.mark.parametrize("trust", [False, True])
def test_a_file_that_is_cut_off(tmp_path: Path, legacy: bool, trust: bool) -> None:
    data = save({"a": torch.arange(1000.0)}, tmp_path / "x", legacy=legacy).read_bytes()
    for length in [0, 1, 5, 40, 100, len(data) // 2, len(data) - 30, len(data) - 1]:
        (tmp_path / "x").write_bytes(data[:length])
        with pytest.raises(CorruptCheckpointError, match="corrupt or cut off"):
            load_torch_file(tmp_path / "x", trust=trust)


@legacy_and_zip
def test_garbage_is_an_error_of_ours(tmp_path: Path, legacy: bool) -> None:
    data = save(state(), tmp_path / "x", legacy=legacy).read_bytes()
    generator = random.Random(0)
    for _ in range(200):
        changed = bytearray(data)
        for _ in range(3):
            changed[generator.randrange(len(data))] = generator.randrange(256)
        try:
            load_torch_file("x", file=io.BytesIO(changed))
        except InvalidCheckpointException as error:
            assert str(error).startswith("x ")


def test_a_file_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_torch_file(tmp_path / "x")


def test_trusted_code_that_is_not_here(tmp_path: Path) -> None:
    data = save({"a": collections.Counter()}, tmp_path / "x", legacy=True).read_bytes()
    (tmp_path / "x").write_bytes(data.replace(b"ccollections\nCounter", b"cnocollections\nCount"))
    with pytest.raises(InvalidCheckpointException, match="cannot be imported here"):
        load_torch_file(tmp_path / "x", trust=True)


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*torch.jit:FutureWarning")  # torch 2.14
def test_torchscript_is_refused(tmp_path: Path) -> None:
    torch.jit.save(torch.jit.trace(torch.nn.Linear(1, 1), torch.ones(1)), tmp_path / "x")
    with pytest.raises(InvalidCheckpointException, match="TorchScript"):
        load_torch_file(tmp_path / "x")


def test_tar_archives_are_refused(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x", "w") as archive:
        archive.addfile(tarfile.TarInfo("storages"), io.BytesIO())
    header = bytearray((tmp_path / "x").read_bytes())
    header[257:265] = bytes(8)  # as before POSIX had a say
    header[148:156] = b" " * 8
    header[148:156] = b"%06o\0 " % sum(header[:512])
    (tmp_path / "y").write_bytes(header)
    for name in ("x", "y"):
        with pytest.raises(InvalidCheckpointException, match="tar archive"):
            load_torch_file(tmp_path / name)


def test_arguments_of_torch_load(tmp_path: Path) -> None:
    file = save({"x": torch.ones(1)}, tmp_path / "x")
    assert load_torch_file(file, map_location="meta")["x"].device.type == "meta"
    assert load_torch_file(file, mmap=True)["x"].item() == 1
    legacy = save({"x": torch.ones(1)}, tmp_path / "y", legacy=True)
    assert load_torch_file(legacy, mmap=True)["x"].item() == 1


@pytest.mark.skipif(torch.cuda.is_available(), reason="a device that is not there is asked for")
def test_arguments_that_do_not_work_are_not_the_files_fault(tmp_path: Path) -> None:
    file = save({"x": torch.ones(1)}, tmp_path / "x")
    with pytest.raises(Exception, match=r"(?i)cuda") as caught:
        load_torch_file(file, map_location="cuda")
    assert not isinstance(caught.value, InvalidCheckpointException)


def as_of_a_gpu(data: bytes) -> bytes:
    changed = data.replace(b"X\x03\x00\x00\x00cpu", b"X\x06\x00\x00\x00cuda:0")
    assert changed != data
    return changed


def test_tensors_of_a_gpu_are_read_without_one(tmp_path: Path) -> None:
    content = {"x": torch.arange(3.0)}
    legacy = save(content, tmp_path / "legacy", legacy=True)
    legacy.write_bytes(as_of_a_gpu(legacy.read_bytes()))
    save(content, tmp_path / "cpu")
    with (
        zipfile.ZipFile(tmp_path / "cpu") as source,
        zipfile.ZipFile(tmp_path / "zip", "w") as target,
    ):
        for entry in source.infolist():
            data = source.read(entry)
            target.writestr(
                entry.filename, as_of_a_gpu(data) if entry.filename.endswith(".pkl") else data
            )
    for name in ("legacy", "zip"):
        assert load_torch_file(tmp_path / name)["x"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("kind", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, 99])
def test_archives_that_cannot_be_unpacked(kind: int, tmp_path: Path) -> None:
    """They are damaged, packed in a way of another program's, or, here as 99, encrypted."""
    file = save(state(), tmp_path / "x")
    with zipfile.ZipFile(file) as source:
        entries = {name: source.read(name) for name in source.namelist()}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED if kind == 99 else kind) as target:
        for name, content in entries.items():
            target.writestr(name, content)
    changed = bytearray(file.read_bytes())
    if kind == 99:
        for signature, flags in ((b"PK\1\2", 8), (b"PK\3\4", 6)):
            changed[changed.index(signature) + flags] |= 1
    else:
        start = changed.index(b"data.pkl") + 40
        changed[start : start + 20] = bytes(20)
    file.write_bytes(changed)
    for read in (load_torch_file, describe):
        with pytest.raises(CorruptCheckpointError, match=str(file)):
            read(file)


def test_an_archive_behind_a_file_of_the_older_form_is_not_read(tmp_path: Path) -> None:
    file = save(state(3.0), tmp_path / "x", legacy=True)
    other = save(Evil(tmp_path / "executed"), tmp_path / "y")
    file.write_bytes(file.read_bytes() + other.read_bytes())
    loaded = load_torch_file(file, mmap=True)
    assert loaded["models_state_dict"][0]["weight"].item() == 3
    assert unsafe_globals(io.BytesIO(file.read_bytes())) == []


def test_an_attribute_of_anything_is_refused(tmp_path: Path) -> None:
    class Gadget:
        def __reduce__(self) -> Any:
            return getattr, (torch.nn.Parameter, "mro")

    with pytest.raises(UnsafeCheckpointError, match="attribute 'mro'"):
        load_torch_file(save({"a": Gadget()}, tmp_path / "x"))

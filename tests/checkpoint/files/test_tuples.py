"""Tuples that are nested so deeply that hashing them would end the process."""

from __future__ import annotations

import io
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from det_compat.checkpoint.files.pickles import read_pickle
from det_compat.checkpoint.files.torch_file import load_torch_file
from det_compat.checkpoint.files.tuples import DEEPEST_TUPLE, DeepTupleError, check_tuples
from det_compat.errors import CorruptCheckpointError

DEEP = DEEPEST_TUPLE + 1
NESTED = {
    "by one": b")" + DEEP * b"\x85",
    "by two": b")" + DEEP * b"N\x86",
    "by three": b")" + DEEP * b"NN\x87",
    "by marks": DEEP * b"(" + DEEP * b"t",
    "through the memo": b")q\x00" + DEEP * b"0h\x00\x85q\x00",
    "from the memo": b"\x80\x04)\x94" + DEEP * b"\x85\x94",
}


def key(nested: bytes) -> bytes:
    """A pickle of a dict with such a key."""
    return b"\x80\x02}" + nested.removeprefix(b"\x80\x04") + b"K\x01s."


@pytest.mark.parametrize("how", NESTED)
def test_a_deep_key_is_refused_before_it_is_hashed(how: str, tmp_path: Path) -> None:
    data, file = key(NESTED[how]), tmp_path / "file"
    file.write_bytes(data)
    with pytest.raises(CorruptCheckpointError, match=r"file is corrupt.*nested more than 10,000"):
        read_pickle(file)
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in {"data.pkl": data, "version": b"3", "byteorder": b"little"}.items():
            archive.writestr(f"archive/{name}", content)
    with pytest.raises(CorruptCheckpointError, match=r"file is corrupt.*nested more than 10,000"):
        load_torch_file(file)
    magic, protocol = torch.serialization.MAGIC_NUMBER, torch.serialization.PROTOCOL_VERSION
    head = b"".join(pickle.dumps(part, protocol=2) for part in (magic, protocol, {}))
    file.write_bytes(head + data + pickle.dumps([], 2))
    with pytest.raises(CorruptCheckpointError, match=r"file is corrupt.*nested more than 10,000"):
        load_torch_file(file)


@pytest.mark.parametrize(
    "value",
    [
        [(number, (number, "t" * 9)) for number in range(9_000)],
        {(1, (2, (3,))): {"a": {(4,)}}, "b": [((),)] * 20_000},
    ],
)
@pytest.mark.parametrize("protocol", range(6))
def test_many_tuples_are_read(value: Any, protocol: int) -> None:
    check_tuples(io.BytesIO(pickle.dumps(value, protocol)))


def test_the_position_is_behind_it() -> None:
    class Raw(io.BytesIO):
        """A file that is read whatever is in it."""

    first = b"\x80\x02" + b")" + 10 * b"\x85" + b"."
    file = io.BufferedReader(Raw(first + b"more"))
    check_tuples(file)
    assert file.read() == b"more"


def test_garbage() -> None:
    with pytest.raises((ValueError, IndexError)) as raised:
        check_tuples(io.BytesIO(20_000 * b"t"))
    assert not isinstance(raised.value, DeepTupleError)

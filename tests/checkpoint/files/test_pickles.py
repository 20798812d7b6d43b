from __future__ import annotations

import collections
import io
import os
import pickle
from pathlib import Path
from typing import Any

import pytest

from det_compat.checkpoint.files.pickles import UNREADABLE, Global, globals_in_pickle, read_pickle
from det_compat.checkpoint.reader import read_json
from det_compat.errors import (
    CorruptCheckpointError,
    InvalidCheckpointException,
    UnsafeCheckpointError,
)
from tests.checkpoint.makers import Evil, dump


class Reduced:
    def __init__(self, *how: Any) -> None:
        self._how = how

    def __reduce__(self) -> Any:
        return self._how[0], self._how[1:]


def found(data: bytes) -> set[str]:
    return {str(one) for one in globals_in_pickle(io.BytesIO(data))}


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_protocol(protocol: int) -> None:
    value = [{"a": Reduced(os.mkdir, "x")}, "posix", Reduced(print), collections.Counter("ab")]
    expected = {f"{os.mkdir.__module__}.mkdir", "builtins.print", "collections.Counter"}
    assert found(pickle.dumps(value, protocol)) == expected


def test_names_that_come_from_the_memo() -> None:
    data = b"\x80\x04\x8c\x02os\x94\x8c\x06system\x940h\x00h\x01\x93."
    assert found(data) == {"os.system"}


def test_a_name_that_only_running_tells() -> None:
    assert found(b"\x80\x04)\x8c\x06system\x93.") == {"?.system"}


def test_other_ways_to_name_something() -> None:
    assert found(b"(S'ls'\nios\nsystem\n.") == {"os.system"}
    assert found(b"\x80\x02\x82\x05.") == {"copyreg.extension 5"}


def test_plain_values_ask_for_nothing() -> None:
    assert found(pickle.dumps({"a": [1, 2.0, None, True, b"x", (), {3}, "os system"]})) == set()


def test_the_position_is_behind_the_pickle() -> None:
    file = io.BytesIO(pickle.dumps(print, 2) + pickle.dumps(1, 2))
    assert globals_in_pickle(file) == {Global("__builtin__", "print")}
    assert globals_in_pickle(file) == set()


@pytest.mark.parametrize("data", [b"", b"\x80", b"hello", pickle.dumps("x" * 99)[:50], b"\xff"])
def test_what_is_no_pickle(data: bytes) -> None:
    with pytest.raises(UNREADABLE):
        found(data)


def test_a_plain_pickle(tmp_path: Path) -> None:
    value = {"a": [1, 2.5, None, b"x", {3}, "text"]}
    assert read_pickle(dump(value, tmp_path / "a.pkl")) == value


@pytest.mark.parametrize("trust", [False, True])
@pytest.mark.parametrize("data", [b"", b"hello", pickle.dumps({"a": "b" * 50})[:-9], b"\x80\x04."])
def test_a_pickle_that_is_corrupt(tmp_path: Path, data: bytes, trust: bool) -> None:
    file = tmp_path / "a.pkl"
    file.write_bytes(data)
    with pytest.raises(CorruptCheckpointError, match=r"a\.pkl is corrupt or cut off"):
        read_pickle(file, trust=trust)


def test_missing_files_are_told_from_corrupt_ones(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_json(tmp_path / "a.json")
    with pytest.raises(FileNotFoundError):
        read_pickle(tmp_path / "a.pkl")


def test_code_is_run_only_for_those_who_trust_it(tmp_path: Path) -> None:
    made = tmp_path / "made"
    file = dump({"a": Evil(made)}, tmp_path / "a.pkl")
    with pytest.raises(UnsafeCheckpointError, match=r"a\.pkl .*mkdir.*trust=True") as caught:
        read_pickle(file)
    assert caught.value.asked == ["posix.mkdir"] and not made.exists()
    assert read_pickle(file, trust=True) == {"a": None}
    assert made.exists()


def test_a_persistent_id_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.pkl"
    file.write_bytes(b"\x80\x02U\x01xQ.")
    with pytest.raises(CorruptCheckpointError):
        read_pickle(file)


@pytest.mark.parametrize("name", ["no_such_module\nx", "os\nno_such_name"])
def test_trusted_code_that_is_not_here(tmp_path: Path, name: str) -> None:
    file = tmp_path / "a.pkl"
    file.write_bytes(b"\x80\x02c" + name.encode() + b"\n.")
    with pytest.raises(InvalidCheckpointException, match="cannot be imported here"):
        read_pickle(file, trust=True)

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from det_compat.checkpoint.files.plain_files import read_json, read_pickle
from det_compat.errors import (
    CorruptCheckpointError,
    InvalidCheckpointException,
    UnsafeCheckpointError,
)
from tests.checkpoint.makers import Evil, dump


def test_json(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a": [1, null]}')
    assert read_json(tmp_path / "a.json") == {"a": [1, None]}


@pytest.mark.parametrize("text", ["", "{", "[1]", "null", '{"a": "\udcff"}', "[" * 100_000])
def test_json_that_is_corrupt(tmp_path: Path, text: str) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(CorruptCheckpointError, match=r"a\.json"):
        read_json(file)


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

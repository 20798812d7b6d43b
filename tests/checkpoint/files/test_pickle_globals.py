from __future__ import annotations

import collections
import io
import os
import pickle
from typing import Any

import pytest

from det_compat.checkpoint.files.pickle_globals import UNREADABLE, Global, globals_in_pickle


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

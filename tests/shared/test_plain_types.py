from __future__ import annotations

import collections
import contextlib
import io
from typing import Any

import numpy as np
import pytest
import torch

from det_compat.checkpoint.files.safe_globals import allowed
from det_compat.shared.plain_types import NotPlainError, from_plain, to_plain

VALUES: list[Any] = [
    None,
    True,
    3,
    2.5,
    1 + 2j,
    "text",
    b"bytes",
    [1, [2, (3, "x")]],
    {"a": {1: 2.0}, ("b", 2): None},
    collections.OrderedDict(b=1, a={"c": collections.OrderedDict()}),
    {"det_compat.type": "hello", "a": {"det_compat.type": "set", "items": [1]}},
    {1, 2},
    frozenset({"x"}),
    collections.deque([1, 2], maxlen=3),
    collections.deque([1]),
    collections.Counter("aab"),
    collections.defaultdict(list, {"a": [1]}),
    np.float32(0.1),
    np.bool_(True),
    np.str_("text"),
    np.datetime64("2026-11-21"),
]
ARRAYS = [
    np.arange(6, dtype=np.uint32).reshape(2, 3),
    np.array([], dtype=np.float64),
    np.zeros((0, 3), dtype=np.int8),
    np.array(2.5),
    np.array(["a", "long"]),
    np.arange(6, dtype=">i4").reshape(2, 3).T,
    np.array([np.nan, np.inf]),
]


def through_a_file(value: Any) -> Any:
    file = io.BytesIO()
    torch.save(to_plain(value), file)
    file.seek(0)
    with allowed() if torch.__version__.startswith("2.4.") else contextlib.nullcontext():
        return from_plain(torch.load(file, weights_only=True))


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_come_back(value: Any) -> None:
    found = through_a_file(value)
    assert found == value
    assert type(found) is type(value)
    assert getattr(found, "maxlen", None) == getattr(value, "maxlen", None)
    assert getattr(found, "default_factory", None) == getattr(value, "default_factory", None)


@pytest.mark.parametrize("array", ARRAYS, ids=repr)
def test_arrays_come_back(array: Any) -> None:
    found = through_a_file({"here": [array]})["here"][0]
    assert found.dtype == array.dtype
    assert found.shape == array.shape
    np.testing.assert_array_equal(found, array)
    found[...] = found  # may be written to


def test_tensors_are_kept_without_their_graph() -> None:
    tensor = torch.ones(2, requires_grad=True) * 2
    found = to_plain([tensor])[0]
    assert torch.equal(found, tensor)
    assert not found.requires_grad


class Mine(dict[str, int]):
    pass


@pytest.mark.parametrize(
    "value",
    [
        object(),
        print,
        Mine(a=1),
        np.array([object()]),
        collections.defaultdict(lambda: 1),
        torch.float32,
    ],
    ids=["object", "function", "subclass", "object array", "factory", "dtype"],
)
def test_what_has_no_plain_form_is_named(value: Any) -> None:
    cls = type(value)
    with pytest.raises(NotPlainError) as caught:
        to_plain({"a": [1, value]}, "state")
    assert str(caught.value) == f"{cls.__module__}.{cls.__qualname__} at state['a'][1]"

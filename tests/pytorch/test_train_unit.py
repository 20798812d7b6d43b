from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

from det_compat.pytorch.train_unit import Batch, Epoch, TrainUnit

VALUES = [
    1,
    3,
    0,
    -1,
    True,
    False,
    10**18,
    [1, 5, 10],
    (0, 2),
    {4},
    range(0, 9, 4),
    {3: "x"},
    [],
    b"\x02\x05",
    np.array([2, 3]),
]


def theirs() -> Any:
    return pytest.importorskip("determined.pytorch")


@pytest.mark.parametrize("name", ["TrainUnit", "Batch", "Epoch"])
@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_stops_when_determined_does(value: Any, name: str) -> None:
    ours = {"TrainUnit": TrainUnit, "Batch": Batch, "Epoch": Epoch}[name](value)
    reference = getattr(theirs(), name)(value)
    steps = range(21)
    assert [ours.should_stop(n) for n in steps] == [reference.should_stop(n) for n in steps]
    assert ours.value is value


def test_same_signature_as_determined() -> None:
    for cls in (TrainUnit, Batch, Epoch):
        reference = getattr(theirs(), cls.__name__)
        assert list(inspect.signature(cls).parameters) == list(
            inspect.signature(reference).parameters
        )
        assert issubclass(cls, TrainUnit)


def test_numpy_integers_are_periods() -> None:
    unit = Batch(np.int64(3))
    assert type(unit.value) is int
    assert [n for n in range(7) if unit.should_stop(n)] == [3, 6]


@pytest.mark.parametrize("value", [1.5, 2.0, "10", None, object()])
def test_refuses_what_determined_fails_on_at_the_first_step(value: Any) -> None:
    with pytest.raises(TypeError, match=type(value).__name__):
        Batch(value)
    with pytest.raises((AssertionError, TypeError)):
        theirs().Batch(value).should_stop(1)


def test_repr_can_be_read_back() -> None:
    assert repr(Batch([1, 5])) == "Batch([1, 5])"
    assert eval(repr(Epoch(2))) == Epoch(2)


def test_equality() -> None:
    assert Batch(2) == Batch(2)
    assert Batch([1, 2]) == Batch([1, 2])
    assert Batch(2) != Batch(3)
    assert Batch(2) != Epoch(2)
    assert Batch(2) != 2
    assert Batch(np.array([1, 2])) == Batch(np.array([1, 2]))
    assert Batch(np.array([1, 2])) != Batch(np.array([1, 2, 3]))
    assert len({Batch(2), Batch(2), Batch([1]), Epoch(2)}) == 3

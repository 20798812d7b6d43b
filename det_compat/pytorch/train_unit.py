"""The periods and lengths of training."""

import operator
from collections.abc import Container
from typing import Any

import numpy as np


class TrainUnit:
    """A period (an int, every so many) or a schedule (a container, at these), in some unit.

    As in Determined 0.38.1, a period below 1 is due at every step, and no period is due at step 0.

    Raises:
        TypeError: ``value`` is neither.
    """

    def __init__(self, value: int | Container[int]) -> None:
        self.value = _checked(value, type(self).__name__)

    def should_stop(self, step_num: int) -> bool:
        """Whether this is due after ``step_num`` units."""
        if not isinstance(self.value, int):
            return step_num in self.value
        if self.value < 1:
            return True
        return step_num != 0 and step_num % self.value == 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TrainUnit) or type(self) is not type(other):
            return NotImplemented
        if isinstance(self.value, np.ndarray) or isinstance(other.value, np.ndarray):
            # NumPy's types know no containers; array_equal takes whatever becomes an array.
            return np.array_equal(self.value, other.value)  # type: ignore[arg-type]
        return self.value == other.value

    def __hash__(self) -> int:
        # A schedule may be a list, which has no hash.
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.value!r})"


class Epoch(TrainUnit):
    """``Epoch(2)``: every two epochs; ``Epoch([1, 5])``: after epochs 1 and 5."""


class Batch(TrainUnit):
    """``Batch(100)``: every 100 batches; ``Batch([1, 5])``: after batches 1 and 5."""


def _checked(value: Any, name: str) -> int | Container[int]:
    if isinstance(value, int):
        return value
    try:
        return operator.index(value)
    except TypeError:
        pass
    if isinstance(value, Container) and not isinstance(value, str):
        return value
    raise TypeError(
        f"{name}() takes an int or a container of ints, got {type(value).__name__} {value!r}: "
        f"write {name}(100) for every 100th or {name}([1, 5, 10]) for these"
    )

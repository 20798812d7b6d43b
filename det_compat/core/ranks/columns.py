"""Metrics of many batches on their way between ranks, as one array for each metric."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Rows = Sequence[dict[str, Any]]


class AsColumns:
    """Dicts of one set of names, which arrive at another rank as a list of the same dicts.

    A number in an array of its own takes 100 times its bytes to send, and as long to pack; of a
    thousand metrics in a hundred batches there are 100,000. What is no array travels as it is.

    Args:
        rows: the dicts, which this rank goes on with.
    """

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    def __reduce__(self) -> tuple[Callable[..., list[dict[str, Any]]], tuple[Any, ...]]:
        names = [*self.rows[0]] if self.rows else []
        if any([*row] != names for row in self.rows):
            return list, (list(self.rows),)
        columns = [_column([row[name] for row in self.rows]) for name in names]
        return _rows, (names, columns, len(self.rows))


def _column(values: list[Any]) -> tuple[bool, Any]:
    """The values as one array, if they are arrays of one kind and shape; whether they are."""
    first = values[0]
    are_alike = type(first) is np.ndarray and all(
        type(value) is np.ndarray and value.dtype == first.dtype and value.shape == first.shape
        for value in values
    )
    return (True, np.stack(values)) if are_alike and not first.dtype.hasobject else (False, values)


def _rows(names: list[str], columns: list[tuple[bool, Any]], count: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [{} for _ in range(count)]
    for name, (is_array, column) in zip(names, columns, strict=True):
        for index, row in enumerate(rows):
            row[name] = column[index, ...] if is_array else column[index]
    return rows

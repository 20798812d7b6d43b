"""Bounds on what a file may stand for: values that hold others many times, and claims of memory."""

import zipfile
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import torch

from det_compat.errors import CorruptCheckpointError

#: Values may be nested as deeply as this.
DEEPEST = 100
#: A file may stand for this many values, and for ten times those that are in it.
MANY_VALUES = 1_000_000
#: Tensors may claim this many bytes, and sixteen times those that are in the file.
MANY_BYTES = 2**28

_CONTAINERS = (list, tuple, set, frozenset, deque)


def check_extent(path: object, value: Any) -> Any:
    """``value``, unless it holds itself or stands for far more than the file has.

    Raises:
        CorruptCheckpointError: it does; the message names ``path`` and the limit.
    """
    walk = _Walk(path)
    stands_for = walk.extent(value, 0)
    held = sum(walk.storages.values())
    if stands_for.values > max(MANY_VALUES, 10 * walk.values):
        raise CorruptCheckpointError(
            f"{path} is corrupt: its values hold each other so often that they stand for "
            f"{stands_for.values:.3g}; it has {walk.values:,}, and the limit is ten times those, "
            f"or {MANY_VALUES:,}"
        )
    if stands_for.bytes > max(MANY_BYTES, 16 * held):
        raise CorruptCheckpointError(
            f"{path} is corrupt: its tensors claim {stands_for.bytes:.3g} bytes; it has {held:,}, "
            f"and the limit is sixteen times those, or {MANY_BYTES:,}"
        )
    return value


def check_archive(path: object, archive: zipfile.ZipFile, size: int) -> None:
    """Refuse an archive whose entries are far larger than itself.

    ``torch.save`` compresses nothing.

    Raises:
        CorruptCheckpointError: they are.
    """
    claimed = sum(entry.file_size for entry in archive.infolist())
    if claimed > max(MANY_BYTES, 16 * size):
        raise CorruptCheckpointError(
            f"{path} is corrupt: its {size:,} bytes unpack to {claimed:,}; the limit is sixteen "
            f"times its size, or {MANY_BYTES:,}"
        )


class _Extent(NamedTuple):
    """How many values a value stands for, and how many bytes its tensors claim."""

    values: int
    bytes: int


class _Walk:
    """Walks through a value, each container in it once."""

    def __init__(self, path: object) -> None:
        self._path = path
        self._known: dict[int, _Extent | None] = {}
        self.values = 0
        self.storages: dict[int, int] = {}

    def extent(self, value: Any, depth: int) -> _Extent:
        if isinstance(value, torch.Tensor):
            return _Extent(1, self._bytes(value))
        if not isinstance(value, (Mapping, *_CONTAINERS)):
            return _Extent(1, 0)
        if id(value) not in self._known:
            self._known[id(value)] = None
            self._known[id(value)] = self._sum(value, depth)
        found = self._known[id(value)]
        if found is None:
            raise CorruptCheckpointError(f"{self._path} is corrupt: a value in it holds itself")
        return found

    def _sum(self, value: Any, depth: int) -> _Extent:
        if depth == DEEPEST:
            raise CorruptCheckpointError(
                f"{self._path} is corrupt: its values are nested more than {DEEPEST} deep"
            )
        extents = [self.extent(item, depth + 1) for item in _items(value)]
        self.values += 1 + len(extents)
        return _Extent(1 + sum(e.values for e in extents), sum(e.bytes for e in extents))

    def _bytes(self, tensor: torch.Tensor) -> int:
        if tensor.layout != torch.strided or tensor.is_meta:
            return 0
        storage = tensor.untyped_storage()
        self.storages[storage.data_ptr()] = storage.nbytes()
        return tensor.numel() * tensor.element_size()


def _items(value: Any) -> Iterator[Any]:
    if isinstance(value, Mapping):
        yield from value
        yield from value.values()
    else:
        yield from value

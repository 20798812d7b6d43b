"""The outline of a file of ``torch.save``: its structure and the shapes of its tensors.

Nothing that the file asks for is imported or called, so that files which are not safe to load can
be described; tensors are not read, so that large ones are described quickly.
"""

from __future__ import annotations

import math
import pickle
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from det_compat.checkpoint.files.limits import check_extent
from det_compat.checkpoint.files.pickles import UNLOADABLE
from det_compat.errors import CorruptCheckpointError

# Before it come the magic number, the protocol and the system.
_LEGACY_OBJECT = 3


class Shape(tuple[int, ...]):
    """The shape of a tensor."""

    @property
    def elements(self) -> int:
        """How many numbers the tensor has."""
        return math.prod(self)


class Opaque:
    """A value of some type that only loading the file would make; it does nothing."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def __call__(self, *_: Any, **__: Any) -> Opaque:
        return Opaque()

    def __setstate__(self, state: Any) -> None:
        pass

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def append(self, item: Any) -> None:
        """Part of how pickles fill a list."""

    def extend(self, items: Any) -> None:
        """Part of how pickles fill a list."""

    def add(self, item: Any) -> None:
        """Part of how pickles fill a set."""

    def __repr__(self) -> str:
        return "?"


def outline(path: Path) -> Any:
    """The content of ``path``, with a ``Shape`` for each tensor and ``Opaque`` for other objects.

    Raises:
        CorruptCheckpointError: it is no file of ``torch.save``, or is cut off.
    """
    from det_compat.checkpoint.files.torch_file import globals_in_torch_file, pickles

    try:
        with path.open("rb") as file:
            globals_in_torch_file(file)
            return check_extent(path, _outline(iter(pickles(file))))
    except UNLOADABLE as error:
        raise CorruptCheckpointError(f"{path} is corrupt or cut off: {error}") from error


def _outline(parts: Iterator[BinaryIO]) -> Any:
    content = _Outliner(next(parts)).load()
    if not isinstance(content, int):
        return content
    # It is the magic number of torch before 1.6.
    for _ in range(_LEGACY_OBJECT):
        content = _Outliner(next(parts)).load()
    return content


class _Outliner(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        return _MADE.get((module, name), Opaque)

    def persistent_load(self, pid: Any) -> Any:
        # torch before 1.6 wrote modules' classes with their sources; all else is a storage.
        return pid[1] if isinstance(pid, tuple) and pid[:1] == ("module",) else Opaque()


class _Dict(OrderedDict[Any, Any]):
    """A state dict, whose attributes are left out."""

    def __setstate__(self, state: Any) -> None:
        pass


def _tensor(storage: Any, offset: Any, size: Any = (), *_: Any) -> Any:
    known = isinstance(size, tuple) and all(isinstance(length, int) for length in size)
    return Shape(size) if known else Opaque()


def _parameter(data: Any, *_: Any) -> Any:
    return data


def _with_attributes(rebuild: Any, _type: Any, arguments: Any, *_: Any) -> Any:
    return _tensor(*arguments) if rebuild is _tensor else Opaque()


def _size(lengths: Any = ()) -> Any:
    return lengths


_MADE: dict[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): _Dict,
    ("torch._utils", "_rebuild_tensor"): _tensor,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch._utils", "_rebuild_tensor_v3"): _tensor,
    ("torch", "Size"): _size,
    ("torch._tensor", "_rebuild_from_type_v2"): _with_attributes,
    ("torch._utils", "_rebuild_parameter"): _parameter,
    ("torch._utils", "_rebuild_parameter_with_state"): _parameter,
}

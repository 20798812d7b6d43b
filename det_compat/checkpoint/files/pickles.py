"""Pickles without code: which functions and classes one asks for, and what a plain one holds."""

from __future__ import annotations

import io
import math
import pickle
import pickletools
import warnings
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from det_compat.errors import (
    CorruptCheckpointError,
    InvalidCheckpointException,
    UnsafeCheckpointError,
)

#: Scanning garbage as a pickle raises these.
UNREADABLE = (ValueError, OverflowError, MemoryError)
#: Loading garbage as a pickle of plain values raises these.
UNLOADABLE = (pickle.PickleError, EOFError, LookupError, TypeError, AttributeError, *UNREADABLE)

_STRINGS = {"UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"}
_STRINGS |= {"STRING", "BINSTRING", "SHORT_BINSTRING"}
_MEMO_READS = {"GET", "BINGET", "LONG_BINGET"}
_MEMO_WRITES = {"PUT", "BINPUT", "LONG_BINPUT"}
_WITHOUT_EFFECT = {"PROTO", "FRAME"}
_PYTHON_2 = {"__builtin__": "builtins", "copy_reg": "copyreg"}


class Global(NamedTuple):
    """A function or class as a pickle names it."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{_PYTHON_2.get(self.module, self.module)}.{self.name}"


def globals_in_pickle(file: BinaryIO) -> set[Global]:
    """What the pickle at the position of ``file`` asks for; the position is then behind it.

    A name that the pickle computes, so that only running it would tell, is ``?``.

    Raises:
        ValueError, OverflowError, MemoryError: it is no pickle, or is cut off.
    """
    with warnings.catch_warnings():
        # Strings of garbage may have escapes that Python deprecates.
        warnings.simplefilter("ignore", DeprecationWarning)
        return set(_globals(pickletools.genops(file)))


def _globals(operations: Iterator[Any]) -> Iterator[Global]:
    pushed: list[str | None] = [None, None]
    memo: dict[int, str | None] = {}
    for opcode, argument, _ in operations:
        name = opcode.name
        if name in ("GLOBAL", "INST"):
            module, _, attribute = argument.partition(" ")
            yield Global(module, attribute)
        elif name == "STACK_GLOBAL":
            yield Global(*(value or "?" for value in pushed[-2:]))
        elif name.startswith("EXT"):
            yield Global("copyreg", f"extension {argument}")
        _remember(name, argument, pushed, memo)


def _remember(
    name: str, argument: Any, pushed: list[str | None], memo: dict[int, str | None]
) -> None:
    """Keep track of the strings that STACK_GLOBAL may take from the stack."""
    if name == "MEMOIZE":
        memo[len(memo)] = pushed[-1]
    elif name in _MEMO_WRITES:
        memo[argument] = pushed[-1]
    elif name not in _WITHOUT_EFFECT:
        value = memo.get(argument) if name in _MEMO_READS else None
        pushed[:] = [pushed[-1], argument if name in _STRINGS else value]


def read_pickle(path: Path, *, trust: bool = False) -> Any:
    """The plain value in a pickle file; nothing in it is run.

    Args:
        path: the file.
        trust: load whatever is in it, which may run code.

    Raises:
        CorruptCheckpointError: it is no pickle, or is cut off.
        UnsafeCheckpointError: it asks for functions or classes.
    """
    data = path.read_bytes()
    try:
        asked = globals_in_pickle(io.BytesIO(data))
    except UNREADABLE as error:
        raise _corrupt(path, error) from error
    if asked and not trust:
        raise UnsafeCheckpointError(path, map(str, asked))
    try:
        return pickle.loads(data) if trust else _PlainUnpickler(io.BytesIO(data)).load()
    except UNLOADABLE as error:
        if isinstance(error, AttributeError) and trust:
            raise _missing(path, error) from error
        raise _corrupt(path, error) from error
    except ImportError as error:
        raise _missing(path, error) from error


class _PlainUnpickler(pickle.Unpickler):
    """Reads plain values, whatever the scan may have missed."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(f"it asks for {module}.{name}")


def _corrupt(path: Path, error: Exception) -> CorruptCheckpointError:
    return CorruptCheckpointError(f"{path} is corrupt or cut off: {error}")


def _missing(path: Path, error: Exception) -> InvalidCheckpointException:
    return InvalidCheckpointException(f"{path} needs code that cannot be imported here: {error}")


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
    from det_compat.checkpoint.files.torch_file import pickles

    try:
        with path.open("rb") as file:
            return _outline(iter(pickles(file)))
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

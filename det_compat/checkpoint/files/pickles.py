"""Pickles without code: which functions and classes one asks for, and what a plain one holds."""

import io
import pickle
import pickletools
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from det_compat.checkpoint.files.limits import check_extent
from det_compat.checkpoint.files.tuples import check_tuples
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
_MANY_MEMOS = 2**20
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
    for count, (opcode, argument, _) in enumerate(operations):
        name = opcode.name
        if name in _MEMO_WRITES and argument > max(_MANY_MEMOS, 16 * count):
            # Unpicklers make room for all places before the one that is written.
            raise ValueError(f"it writes place {argument:,} of its memo")
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
        CorruptCheckpointError: it is no pickle, is cut off, or stands for far more than it has.
        UnsafeCheckpointError: it asks for functions or classes.
    """
    data = path.read_bytes()
    try:
        asked = globals_in_pickle(io.BytesIO(data))
        if not trust:
            check_tuples(io.BytesIO(data))
    except (*UNREADABLE, IndexError) as error:
        raise _corrupt(path, error) from error
    if asked and not trust:
        raise UnsafeCheckpointError(path, map(str, asked))
    try:
        if trust:
            return pickle.loads(data)
        return check_extent(path, _PlainUnpickler(io.BytesIO(data)).load())
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

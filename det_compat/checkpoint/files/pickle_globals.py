"""Which functions and classes a pickle asks for, found without loading it."""

from __future__ import annotations

import pickle
import pickletools
import warnings
from collections.abc import Iterator
from typing import Any, BinaryIO, NamedTuple

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

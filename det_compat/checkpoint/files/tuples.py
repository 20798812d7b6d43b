"""How deep the tuples in a pickle are nested, told without loading it.

A tuple in the key of a dictionary is hashed while it is loaded, by a recursion that Python does not
bound: deep enough, it ends the process.
"""

import io
import pickletools
from typing import Any, BinaryIO

#: Tuples may be nested as deeply as this: what loads them has its own, lower limit.
DEEPEST_TUPLE = 10_000
_MAKES_TUPLE = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_OPERATIONS = (b"\x85", b"\x86", b"\x87", b"t")
_PUTS = {"PUT", "BINPUT", "LONG_BINPUT"}
_GETS = {"GET", "BINGET", "LONG_BINGET"}


class DeepTupleError(ValueError):
    """A pickle nests tuples so deeply that Python would end while it loads them."""


def check_tuples(file: BinaryIO) -> None:
    """Read the pickle at the position of ``file``; the position is then behind it.

    Raises:
        DeepTupleError: its tuples are nested deeper than DEEPEST_TUPLE.
        ValueError, IndexError, OverflowError, MemoryError: it is no pickle.
    """
    if isinstance(file, io.BytesIO):
        data = file.getvalue()
        if sum(data.count(operation) for operation in _OPERATIONS) < DEEPEST_TUPLE:
            return
    stack = _Depths()
    for opcode, argument, _ in pickletools.genops(file):
        stack.apply(opcode, argument)
        if stack.deepest > DEEPEST_TUPLE:
            raise DeepTupleError(f"it has tuples that are nested more than {DEEPEST_TUPLE:,} deep")


class _Depths:
    """The stack of an unpickler, with the depth of a tuple in place of each value."""

    def __init__(self) -> None:
        self.deepest = 0
        self._values: list[int] = []
        self._marks: list[int] = []
        self._memo: dict[int, int] = {}

    def apply(self, opcode: Any, argument: Any) -> None:
        """Do to the stack what an operation does."""
        name, values = opcode.name, self._values
        if name == "MARK":
            self._marks.append(len(values))
        elif name in _MAKES_TUPLE:
            self._tuple_from(len(values) - _MAKES_TUPLE[name])
        elif name == "TUPLE":
            self._tuple_from(self._marks.pop())
        elif name == "DUP":
            values.append(values[-1])
        elif name in _GETS:
            values.append(self._memo.get(int(argument), 0))
        elif name in _PUTS:
            self._memo[int(argument)] = values[-1]
        elif name == "MEMOIZE":
            self._memo[len(self._memo)] = values[-1]
        else:
            self._replace(opcode)

    def _tuple_from(self, start: int) -> None:
        depth = 1 + max(self._values[start:], default=0)
        self._values[start:] = [depth]
        self.deepest = max(self.deepest, depth)

    def _replace(self, opcode: Any) -> None:
        taken = [item.name for item in opcode.stack_before]
        if "mark" in taken:
            del self._values[self._marks.pop() :]
            taken = taken[: taken.index("mark")]
        if taken:
            del self._values[-len(taken) :]
        self._values += [0] * len(opcode.stack_after)

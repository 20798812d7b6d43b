"""What the program of this process has ended with, as far as its own code can find out."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

_end: BaseException | None = None


@contextlib.contextmanager
def end_noted() -> Iterator[None]:
    """Note what the program ends with that runs in the block."""
    global _end
    try:
        yield
    except BaseException as error:
        _end = error
        raise


def end_of_program() -> BaseException | None:
    """What the program of this process has ended with; None if it goes on, or came to its end.

    Of one that ``python`` runs, a SystemExit is not known; an interpreter that asks for more goes
    on whatever was raised.
    """
    if _end is not None or hasattr(sys, "ps1"):
        return _end
    return getattr(sys, "last_value", None)


def is_failure(end: BaseException | None) -> bool:
    """Whether a program that has ended so has failed; None is its end without an exception."""
    is_good = isinstance(end, SystemExit) and end.code in (None, 0)
    return not (end is None or is_good or isinstance(end, KeyboardInterrupt))

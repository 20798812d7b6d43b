"""What the program of this process has ended with, as far as its own code can find out."""

from __future__ import annotations

import contextlib
import dis
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any, NoReturn

# Whether ``det-compat run`` runs the program, and what it has ended with.
_is_run = False
_end: BaseException | None = None
# What the program that ``python`` runs has given to sys.exit() last, and the frame of its module.
_exit: SystemExit | None = None
_program: FrameType | None = None


@contextlib.contextmanager
def end_noted() -> Iterator[None]:
    """Note what the program ends with that runs in the block."""
    global _is_run, _end
    _is_run = True
    try:
        yield
    except BaseException as error:
        _end = error
        raise


def watch_exit() -> None:
    """Note what a program that ``python`` runs gives to ``sys.exit()``.

    Python 3.10 to 3.13 keeps an exception that has ended a program, but for a SystemExit.
    """
    global _program
    if _program is not None or _is_run or hasattr(sys, "ps1"):
        return
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_globals is vars(sys.modules["__main__"]):
            _program = frame
        frame = frame.f_back
    sys_exit = sys.exit

    def noted(status: Any = None, /) -> NoReturn:
        global _exit
        _exit = SystemExit(status)
        sys_exit(status)

    sys.exit = noted


def end_of_program() -> BaseException | None:
    """What the program of this process has ended with; None if it goes on, or came to its end.

    Of one that ``python`` runs, a SystemExit is known that ``sys.exit()`` has raised since
    ``watch_exit()``; an interpreter that asks for more goes on whatever was raised.
    """
    if _end is not None or hasattr(sys, "ps1"):
        return _end
    error: BaseException | None = getattr(sys, "last_value", None)
    if error is None and _exit is not None and not _has_returned(_program):
        return _exit
    return error


def is_failure(end: BaseException | None) -> bool:
    """Whether a program that has ended so has failed; None is its end without an exception."""
    is_good = isinstance(end, SystemExit) and end.code in (None, 0)
    return not (end is None or is_good or isinstance(end, KeyboardInterrupt))


def _has_returned(frame: FrameType | None) -> bool:
    """Whether the code of a frame has come to its end, and nothing has thrown it out."""
    if frame is None:
        return False
    code = frame.f_code.co_code
    return dis.opname[code[frame.f_lasti]].startswith("RETURN")

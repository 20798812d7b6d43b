"""Whether this process was started for det_compat, or det_compat is a guest in it.

What concerns the process as a whole, such as how its memory is managed, is det_compat's to choose
only in the first case: in a notebook, a server or a script, others live there too.
"""

import io
import os
import stat
import sys
from typing import Any

_is_ours = False


def claim_process() -> None:
    """Note that this process was started for det_compat, and ends with what it runs.

    Standard streams that it was started without lead nowhere from here on: Python has None for
    them, which libraries do not expect, and a file that is opened would get what is printed.
    """
    global _is_ours
    _is_ours = True
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            # The system gives the lowest number that is free.
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", errors="replace"))


def process_is_ours() -> bool:
    """Whether this process was started for det_compat."""
    return _is_ours


def outlive_readers() -> None:
    """Let what this process prints go nowhere once who reads it has gone, as ``head`` does.

    What trains, searches or writes files does not end for that, and has a log of its own.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper) and _is_pipe(stream):
            stream.flush()
            raw = _Outliving(stream.fileno(), "w", closefd=False)
            outliving = io.TextIOWrapper(
                io.BufferedWriter(raw),
                encoding=stream.encoding,
                errors=stream.errors,
                line_buffering=stream.line_buffering,
                write_through=stream.write_through,
            )
            setattr(sys, name, outliving)


def _is_pipe(stream: io.TextIOWrapper) -> bool:
    mode = os.fstat(stream.fileno()).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


class _Outliving(io.FileIO):
    def write(self, content: Any, /) -> int:
        try:
            return super().write(content)
        except (BrokenPipeError, ConnectionResetError):
            # Whatever else writes there, such as compiled code, is to outlive the reader, too.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return super().write(content)

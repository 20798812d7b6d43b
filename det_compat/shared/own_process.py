"""Whether this process was started for det_compat, or det_compat is a guest in it.

What concerns the process as a whole, such as how its memory is managed, is det_compat's to choose
only in the first case: in a notebook, a server or a script, others live there too.
"""

import os
import sys

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

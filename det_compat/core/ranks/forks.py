"""Forks of a process in which threads of a process group are at work.

CPython 3.10 and 3.11 want the lock of all thread states in a process that was forked just now, and
make it anew only then. Where another thread had it in that moment, the new process waits for ever.
A thread of gloo has it when it is the last to let go of a tensor that Python knows, soon after a
collective. CPython 3.12 and later make the lock anew first.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
import threading
import time
from pathlib import Path

_SECONDS = 0.5  # Threads that compute all the time are not waited for any longer.
_PERIOD = 0.0005
_THREADS = Path("/proc/self/task")
_AT_WORK = ("R", "D")


@functools.cache
def make_safe() -> None:
    """Let each fork of this process wait until its other threads rest.

    The thread that forks has the GIL, so another one that wants Python rests, too: it has the lock
    while it is at work only. Where threads cannot be looked at, nothing happens.
    """
    if sys.version_info < (3, 12) and _THREADS.is_dir():
        os.register_at_fork(before=wait_for_threads)


def wait_for_threads() -> None:
    """Return when no other thread of this process is at work, or after half a second."""
    own = str(threading.get_native_id())
    until = time.monotonic() + _SECONDS
    while any(_is_at_work(it) for it in os.listdir(_THREADS) if it != own):
        if time.monotonic() > until:
            return
        time.sleep(_PERIOD)


def _is_at_work(thread: str) -> bool:
    with contextlib.suppress(OSError):  # It has ended.
        status = (_THREADS / thread / "stat").read_text("utf-8", errors="replace")
        return status.rpartition(")")[2].split()[0] in _AT_WORK
    return False

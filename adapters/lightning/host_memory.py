"""Memory that a training on the CPU frees and takes again with every batch.

glibc gives freed memory at the end of its heap back to the system, which hands it out again page
by page. Whether that befalls a training depends on what lies at the end: a CNN on digits had 0 to
1,200 page faults a batch, and needed 7 to 9 ms for the same work (docs/performance.md).

What is set here holds for the whole process: for every thread, and for good, since glibc stops to
adapt a threshold that was ever set, and cannot be asked what it was. A notebook or a server would
keep memory that it has freed, and wait at the end while all of its heap is given back. So it is
set only in a process that was started for det_compat: by ``det-compat run``, ``fit``, ``validate``
and ``search``. Elsewhere whoever owns the process may say the same in its environment.
"""

import contextlib
import ctypes
import functools
import logging
import os
import sys
from collections.abc import Iterator

from det_compat.shared.own_process import process_is_ours

logger = logging.getLogger("det_compat")

# From glibc's malloc.h; mallopt(3) describes them.
_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
# glibc raises both as far by itself in a process that frees large blocks.
_MMAP_THRESHOLD = 32 * 2**20
_TRIM_THRESHOLD = 2 * _MMAP_THRESHOLD


@contextlib.contextmanager
def freed_memory_kept() -> Iterator[None]:
    """Keep what is freed for the next batch, in this process and those that it forks.

    This does nothing in a process in which det_compat is a guest, without glibc, or where the
    environment says what its malloc is to do.
    """
    # A threshold that is set is no longer raised by itself, so both are.
    if not (process_is_ours() and _set_thresholds(mmap=_MMAP_THRESHOLD, trim=2**31 - 1)):
        _log_once("memory that a batch frees is left to the system's malloc")
        yield
        return
    _log_once("malloc keeps what a batch frees until the run is over (M_TRIM_THRESHOLD)")
    try:
        yield
    finally:
        _set_thresholds(mmap=_MMAP_THRESHOLD, trim=_TRIM_THRESHOLD)
        ctypes.CDLL(None).malloc_trim(0)


@functools.cache
def _log_once(message: str) -> None:
    logger.debug(message)


def _set_thresholds(*, mmap: int, trim: int) -> bool:
    if sys.platform != "linux" or _is_set_by_the_user():
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    return bool(mallopt(_M_MMAP_THRESHOLD, mmap) and mallopt(_M_TRIM_THRESHOLD, trim))


def _is_set_by_the_user() -> bool:
    variables = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_")
    tunables = os.environ.get("GLIBC_TUNABLES", "")
    return "glibc.malloc" in tunables or any(name in os.environ for name in variables)

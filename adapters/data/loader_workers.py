"""Workers of torch loaders that outlive a SIGTERM or SIGINT to the whole process group.

Schedulers and ``timeout`` send the one to every process, Ctrl-C the other. A worker that died of
it would end the run by an error before its last checkpoint is written, or tell of its own
interruption. Workers still end with the process they work for:
it sends SIGTERM, too, when it exits while a loader is still referred to, and waits for them. Where
it is killed, they end by themselves: torch 2.13's own look at the parent comes between two batches,
and never in a worker whose queue is full.
"""

import atexit
import copy
import functools
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from torch.utils.data import DataLoader

from det_compat.core.ranks import forks

_SECONDS_BETWEEN_LOOKS = 1.0


class IgnoresSignals:
    """A ``worker_init_fn`` that has a worker ignore them, then does what the user's own does."""

    def __init__(self, worker_init_fn: Callable[[int], None] | None) -> None:
        self._worker_init_fn = worker_init_fn
        self._owner_exits = _exit_flag(os.getpid())

    def __call__(self, worker_id: int) -> None:
        signal.signal(signal.SIGTERM, self._on_sigterm)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        sys.excepthook = functools.partial(_tell_if_anybody_listens, sys.excepthook)
        parent = os.getppid()
        threading.Thread(target=_end_without, args=(parent,), daemon=True).start()
        if self._worker_init_fn is not None:
            self._worker_init_fn(worker_id)

    def _on_sigterm(self, number: int, frame: Any) -> None:
        if self._owner_exits.value:
            os._exit(0)


def _tell_if_anybody_listens(tell: Callable[..., Any], kind: Any, error: Any, trace: Any) -> None:
    """Show an exception, unless a thread could not hand on a tensor.

    multiprocessing's thread shows it here when its owner was interrupted while it asked for one.
    """
    is_of_thread = threading.current_thread() is not threading.main_thread()
    if not (is_of_thread and isinstance(error, (ConnectionError, EOFError))):
        tell(kind, error, trace)


def _end_without(parent: int) -> None:
    """End this process when ``parent`` is no longer there."""
    # The kernel's PR_SET_PDEATHSIG would come when the thread ends that has started the worker.
    while os.getppid() == parent:
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    os._exit(1)


@functools.cache
def _exit_flag(owner: int) -> Any:
    """A flag in shared memory that tells workers whether process ``owner`` is exiting."""
    flag = multiprocessing.RawValue("b", 0)

    # This runs before multiprocessing, which was imported earlier, ends the workers.
    @atexit.register
    def note_exit() -> None:
        if os.getpid() == owner:  # A fork of the owner inherits this function.
            flag.value = 1

    return flag


def with_lasting_workers(loader: Any) -> Any:
    """A copy of ``loader`` whose workers ignore SIGTERM; the same one if it has no workers."""
    if not isinstance(loader, DataLoader) or loader.num_workers == 0:
        return loader
    forks.make_safe()
    loader = copy.copy(loader)
    loader.worker_init_fn = IgnoresSignals(loader.worker_init_fn)
    return loader

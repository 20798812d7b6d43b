"""SIGTERM, by which schedulers take a machine away: the run ends between two batches."""

from __future__ import annotations

import logging
import signal
import threading
from typing import Any

import torch
import torch.distributed as dist

from det_compat import core

logger = logging.getLogger("det_compat")

#: What a process exits with whose run was ended by SIGTERM, as shells tell it.
EXIT_STATUS = 128 + signal.SIGTERM


def set_handler(number: signal.Signals, handler: Any) -> None:
    """Let ``handler`` handle a signal, where it can: in the main thread.

    None stands for a handler that Python did not install and cannot put back.
    """
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(number, handler)


class Preempted(SystemExit):
    """The run has ended because of SIGTERM, and its state is in a checkpoint."""

    def __init__(self) -> None:
        super().__init__(EXIT_STATUS)


class TerminationSignal:
    """Notes SIGTERM, for all ranks to act upon after the same batch.

    The handler only sets a flag; a second SIGTERM does what it would do without one. A handler
    that the script has installed is left alone. ``disposition`` is what SIGTERM did before
    Lightning put its own handler in place, which would exit with status 0.
    """

    def __init__(self, distributed: core.DistributedContext, disposition: Any) -> None:
        self._received = False
        self._disposition = disposition
        self._is_ours = disposition in (signal.SIG_DFL, None)
        self._ranks = _Agreement() if distributed.size > 1 else None
        set_handler(signal.SIGTERM, self._note if self._is_ours else disposition)

    def _note(self, number: int, frame: Any) -> None:
        self._received = True
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def is_noticed(self) -> bool:
        """Whether the run is to end now; the same on all ranks, which all have to ask."""
        if self._ranks is None:
            return self._received
        return self._ranks.reached(self._received)


class _Agreement:
    """Whether any rank wants to stop, told one question later so that no rank waits for another.

    The flag goes over the CPU: a GPU would have to be waited for.
    """

    def __init__(self) -> None:
        self._group = dist.new_group(backend="gloo")
        self._flag = torch.zeros(1)
        self._exchange: Any = None

    def reached(self, wanted: bool) -> bool:
        if self._exchange is not None:
            self._exchange.wait()
            if self._flag.item():
                return True
        self._flag.fill_(float(wanted))
        self._exchange = dist.all_reduce(
            self._flag, op=dist.ReduceOp.MAX, group=self._group, async_op=True
        )
        return False

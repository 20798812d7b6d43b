"""Signals of schedulers, which take a machine away, and Ctrl-C: what ends a run from outside."""

import enum
import logging
import math
import os
import signal
import sys
import threading
import time
from typing import Any

import torch
import torch.distributed as dist

from det_compat import core
from det_compat.adapters.lightning import door
from det_compat.adapters.lightning.package import pl
from det_compat.script.ending import TERMINATED, SecondSignal
from det_compat.script.machines import requeue_job

logger = logging.getLogger("det_compat")


def set_handler(number: signal.Signals, handler: Any) -> None:
    """Let ``handler`` handle a signal, where it can: in the main thread.

    None stands for a handler that Python did not install and cannot put back.
    """
    if handler is not None and threading.current_thread() is threading.main_thread():
        signal.signal(number, handler)


class Reason(enum.IntEnum):
    """Why a run is to end now; the later ones count more."""

    NONE = 0
    TERMINATION = 1
    REQUEUE = 2


class Preempted(SystemExit):
    """The run has ended because of a signal, and its state is in a checkpoint.

    The log of rank 0 says so, and how to go on; it puts a job of SLURM into the queue again that is
    to go on by itself.
    """

    def __init__(self, rank: int, batches: int, remedy: str, reason: Reason) -> None:
        super().__init__(TERMINATED)
        if rank == 0:
            name = "SIGTERM" if reason is Reason.TERMINATION else "the signal to requeue"
            logger.warning(f"{name}: stopped after batch {batches}; go on with {remedy}")
            if reason is Reason.REQUEUE:
                requeue_job()


class Interruption:
    """Ctrl-C ends the run also where its KeyboardInterrupt is swallowed, or becomes another error.

    Python goes on after an exception in a finalizer or in a garbage collection, and so does code
    that catches everything. While this is entered, the handler notes that SIGINT has come before
    it raises, and ``act`` raises again. A handler that is not Python's own is left alone.

    One that follows within a second is the same: a terminal sends it to all processes of the run,
    and ranks send it on. After the block SIGINT is ignored if it has come, for the process to end.
    """

    _SECONDS = 1.0

    def __init__(self) -> None:
        self.has_come = False
        self._came_at = -math.inf
        self._process = os.getpid()
        self._handler: Any = None
        self._unraisable = sys.unraisablehook

    def __enter__(self) -> "Interruption":
        self._handler = signal.getsignal(signal.SIGINT)
        if self._handler is signal.default_int_handler:
            set_handler(signal.SIGINT, self._note)
        self._unraisable, sys.unraisablehook = sys.unraisablehook, self._tell_unraisable
        return self

    def __exit__(self, *error: object) -> None:
        sys.unraisablehook = self._unraisable
        set_handler(signal.SIGINT, signal.SIG_IGN if self.has_come else self._handler)

    def _tell_unraisable(self, found: Any) -> None:
        # Python would show a traceback of what `act` is about to raise again.
        if not isinstance(found.exc_value, KeyboardInterrupt):
            self._unraisable(found)

    def _note(self, number: int, frame: Any) -> None:
        now = time.monotonic()
        # Forks inherit the handler: loader workers end with this process.
        if os.getpid() != self._process or now - self._came_at < self._SECONDS:
            return
        self.has_come, self._came_at = True, now
        signal.default_int_handler(number, frame)

    def act(self) -> None:
        """Raise KeyboardInterrupt if SIGINT has come, whatever became of its own."""
        if self.has_come:
            raise KeyboardInterrupt


class TerminationSignal:
    """Notes SIGTERM, and what SLURM sends to requeue a job, for all ranks to act upon in step.

    The handler only sets a flag; a second SIGTERM does what it would do without one. A handler
    that the script has installed is left alone.

    Args:
        distributed: the ranks.
        disposition: what SIGTERM did before Lightning put its own handler in place, which would
            exit with status 0.
        has_come: whether Lightning's handlers have had a signal already.
        requeue: the signal to requeue; None where there is none.
    """

    def __init__(
        self,
        distributed: core.DistributedContext,
        disposition: Any,
        *,
        has_come: Reason = Reason.NONE,
        requeue: Any = None,
    ) -> None:
        self._is_ours = disposition in (signal.SIG_DFL, None)
        is_foreign = has_come is Reason.TERMINATION and not self._is_ours
        self._received = Reason.NONE if is_foreign else has_come
        #: Whether there is a reason to ask; several ranks always have one: they have to agree.
        self.may_have_come = bool(self._received) or distributed.size > 1
        self._ranks = _Agreement(distributed) if distributed.size > 1 else None
        set_handler(signal.SIGTERM, self._note if self._is_ours else disposition)
        if requeue is not None:
            set_handler(requeue, self._note_requeue)

    @classmethod
    def of(
        cls, trainer: pl.Trainer, distributed: core.DistributedContext, disposition: Any
    ) -> "TerminationSignal":
        """What notes the signals of a Trainer, whose handlers may have had one already."""
        has_come = Reason(bool(getattr(trainer, "received_sigterm", False)))
        if door.has_had_requeue(trainer):
            has_come = Reason.REQUEUE
        requeue = door.requeue_signal(trainer)
        return cls(distributed, disposition, has_come=has_come, requeue=requeue)

    def _note(self, number: int, frame: Any) -> None:
        self._received = max(self._received, Reason.TERMINATION)
        self.may_have_come = True
        signal.signal(signal.SIGTERM, SecondSignal())

    def _note_requeue(self, number: int, frame: Any) -> None:
        self._received, self.may_have_come = Reason.REQUEUE, True

    def noticed(self) -> Reason:
        """Why the run is to end now; the same on all ranks, which all have to ask."""
        if self._ranks is None:
            return self._received
        return self._ranks.reached(self._received)


class _Agreement:
    """Whether any rank wants to stop, asked every half second and told one question later.

    A message after every batch, though no rank waits for it, cost two ranks a tenth of batches of
    10 ms. After how many batches the next one goes follows from the last: all ranks send it after
    the same batch, and not too many, as batches may be slower from now on. It goes over the CPU,
    since a GPU would have to be waited for.
    """

    SECONDS = 0.5
    BATCHES = 50

    def __init__(self, distributed: core.DistributedContext) -> None:
        self._group = distributed.cpu_group()
        self._message: torch.Tensor  # why to stop, and the seconds since the last message
        self._exchange: Any = None
        self._sent = time.monotonic()
        self._batches = 0
        self._period = 1

    def reached(self, wanted: Reason) -> Reason:
        self._batches += 1
        if self._exchange is not None:
            self._exchange.wait()
            self._exchange = None
            reason, seconds = self._message.tolist()
            if reason:
                return Reason(int(reason))
            batches_in_time = int(self._period * self.SECONDS / max(seconds, 1e-3))
            self._period = max(1, min(batches_in_time, 2 * self._period, self.BATCHES))
        if self._batches >= self._period:
            self._send(wanted)
        return Reason.NONE

    def _send(self, wanted: Reason) -> None:
        now = time.monotonic()
        message = [float(wanted), now - self._sent]
        self._message = torch.tensor(message, dtype=torch.float32, device="cpu")
        self._sent, self._batches = now, 0
        self._exchange = dist.all_reduce(
            self._message, op=dist.ReduceOp.MAX, group=self._group, async_op=True
        )

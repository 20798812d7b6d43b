"""Whether a task is asked to stop."""

from __future__ import annotations

import enum
import logging
import os
import signal
import threading
import time
from types import FrameType
from typing import Any

from det_compat.core.distributed import DistributedContext
from det_compat.script.ending import SecondSignal

logger = logging.getLogger("determined.core")


class PreemptMode(enum.Enum):
    """Who may ask whether to stop, and who answers.

    - ``WorkersAskChief``: all ranks ask in step, and get the chief's answer.
    - ``ChiefOnly``: the chief asks; it tells the others by itself.
    - ``WorkersAskMaster``: each rank asks for itself, and may hear of it before or after others.
    """

    WorkersAskChief = "WORKERS_ASK_CHIEF"
    ChiefOnly = "CHIEF_ONLY"
    WorkersAskMaster = "WORKERS_ASK_MASTER"


class PreemptContext:
    """Whether the task is to shut down, as in Determined 0.38.1.

    Args:
        session: asks a master, by ``get`` and ``post``; None without one.
        allocation_id: what the master calls the task.
        dist: the ranks.
        preempt_mode: who may ask.

    Raises:
        ValueError: there is no such mode.
    """

    def __init__(
        self,
        session: Any,
        allocation_id: str,
        dist: DistributedContext,
        preempt_mode: PreemptMode = PreemptMode.WorkersAskChief,
    ) -> None:
        self._session = session
        self._path = f"/api/v1/allocations/{allocation_id}/signals"
        self._ack_sent = False
        self._watcher: _Watcher | None = None
        self._dist = dist
        self._preempt_mode = PreemptMode(preempt_mode)
        self._started = False
        #: Whether the task was told to stop.
        self.has_preempted = False

    def start(self) -> PreemptContext:
        """Begin; the context manager of ``core.init()`` does it.

        Raises:
            RuntimeError: it has begun.
        """
        if self._started:
            raise RuntimeError("you cannot call PreemptContext.start() multiple times")
        self._started = True
        asks = self._dist.get_rank() == 0 or self._preempt_mode is PreemptMode.WorkersAskMaster
        if self._session is not None and asks:
            self._watcher = _Watcher(self._session, f"{self._path}/preemption")
            self._watcher.start()
        return self

    def close(self) -> None:
        """End."""
        if self._watcher is not None:
            self._watcher.is_to_end = True

    def ended(self, error: BaseException | None) -> None:
        """Take note that the script ends, by an error or in good order."""

    def __enter__(self) -> PreemptContext:
        return self.start()

    def __exit__(self, *_: Any) -> None:
        self.close()

    def should_preempt(self, auto_ack: bool = True) -> bool:
        """Whether the task is to save its state and end; see ``PreemptMode`` for who may ask.

        Args:
            auto_ack: whether the answer True counts as acknowledged.

        Raises:
            RuntimeError: it has not begun, or this rank may not ask.
        """
        if not self._started:
            raise RuntimeError(
                "you cannot call PreemptContext.should_preempt() before PreemptContext.start()"
            )
        is_chief = self._dist.get_rank() == 0
        if not is_chief and self._preempt_mode is PreemptMode.ChiefOnly:
            raise RuntimeError(
                "PreemptContext was configured with preempt_mode=ChiefOnly but "
                ".should_preempt() was called from non-chief worker of "
                f"rank={self._dist.get_rank()}"
            )
        asks_chief = self._preempt_mode is PreemptMode.WorkersAskChief
        answer = self._is_preempted() if is_chief or not asks_chief else False
        if asks_chief:
            answer = self._dist.broadcast(answer) is True
        self.has_preempted = self.has_preempted or answer
        decides = is_chief or not asks_chief
        if answer and auto_ack and decides and not self._ack_sent:
            self._ack_sent = True
            self.acknowledge_preemption_signal()
        return answer

    def acknowledge_preemption_signal(self) -> None:
        """Say that the task ends, and is not done."""
        if self._session is not None:
            self._session.post(f"{self._path}/ack_preemption")

    def _is_preempted(self) -> bool:
        return self._watcher is not None and self._watcher.should_preempt()


class _Watcher(threading.Thread):
    """Asks a master whether a task is to stop, until it is."""

    _LONG = 60  # seconds that the master may think about it
    _REST = 10.0  # seconds after it could not be reached

    def __init__(self, session: Any, path: str) -> None:
        super().__init__(daemon=True, name="det_compat preemption")
        self._session = session
        self._path = path
        self._is_known = threading.Event()
        self._should_preempt: bool | None = None
        self.is_to_end = False

    def run(self) -> None:
        seconds = 0
        while not self._should_preempt and not self.is_to_end:
            try:
                answer = self._session.get(
                    self._path, params={"timeout_seconds": str(seconds)}, timeout=seconds + 10
                )
                self._should_preempt = answer.json()["preempt"] is True
            except Exception as error:
                logger.warning(f"cannot ask whether to stop, and try again: {error}")
                self._should_preempt = bool(self._should_preempt)
                self._is_known.set()
                time.sleep(self._REST)
            self._is_known.set()
            seconds = self._LONG

    def should_preempt(self) -> bool:
        """What the master said last; the first answer is waited for."""
        self._is_known.wait()
        return bool(self._should_preempt)


class DummyPreemptContext(PreemptContext):
    """A context that never preempts."""

    def __init__(
        self,
        dist: DistributedContext,
        preempt_mode: PreemptMode = PreemptMode.WorkersAskChief,
    ) -> None:
        super().__init__(None, "", dist, preempt_mode)


class SignalPreemptContext(DummyPreemptContext):
    """A context that SIGTERM preempts, between ``start()`` and ``close()``.

    The first signal makes ``should_preempt()`` True; a second one ends the process, as it would
    without this. So does the first one in a script that has not asked before, and does not ask
    within half a minute: it may never do. A handler that the script has installed is left alone;
    threads other than the main one cannot handle signals.
    """

    _GRACE = 30.0  # seconds for a script to ask for the first time

    def __init__(
        self,
        dist: DistributedContext,
        preempt_mode: PreemptMode = PreemptMode.WorkersAskChief,
    ) -> None:
        super().__init__(dist, preempt_mode)
        self._received = self._listens = False
        self._second: SecondSignal | None = None
        #: Whether the script has asked yet; one that has may be trusted to ask again.
        self.has_asked = False
        self._deadline: threading.Timer | None = None

    def start(self) -> PreemptContext:
        super().start()
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, self._note)
            self._listens = True
        return self

    def close(self) -> None:
        self._stop_waiting()
        own = filter(None, (self._note, self._second))
        if self._listens and signal.getsignal(signal.SIGTERM) in own:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        self._listens = False

    def should_preempt(self, auto_ack: bool = True) -> bool:
        self.has_asked = True
        self._stop_waiting()
        return super().should_preempt(auto_ack)

    def _is_preempted(self) -> bool:
        return self._received

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._received, self._second = True, SecondSignal()
        signal.signal(signal.SIGTERM, self._second)
        if not self.has_asked:
            self._deadline = threading.Timer(self._GRACE, os.kill, (os.getpid(), number))
            self._deadline.daemon = True
            self._deadline.start()

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

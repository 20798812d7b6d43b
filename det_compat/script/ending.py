"""How programs end: their exit statuses, and what this process's own has ended with."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from types import FrameType

#: The exit status where there is something for the user to mend.
TO_MEND = 2
#: Those after Ctrl-C, and after SIGTERM in good order, as shells count them.
INTERRUPTED = 128 + signal.SIGINT
TERMINATED = 128 + signal.SIGTERM

#: The signal by which SLURM ends a job that is to go into the queue again; as in Lightning 2.6.6.
REQUEUE = signal.SIGUSR1
#: The variable that says in which process a program is to end with the one that has started it.
PARENT = "DET_COMPAT_PARENT"
_SECONDS_BETWEEN_LOOKS = 1.0

# A launcher that is told to end sends it on, also where its processes have been told with it.
_SECONDS_OF_ONE_SIGNAL = 1.0

_end: BaseException | None = None


class SecondSignal:
    """What handles a signal that has come: the next one ends the process, as it would by itself.

    One that follows within a second is the same: it went to all processes, as those of schedulers
    do, and torchrun has sent it on.
    """

    def __init__(self) -> None:
        self._began = time.monotonic()

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if time.monotonic() - self._began >= _SECONDS_OF_ONE_SIGNAL:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)


def end_after_parent(patience: float) -> None:
    """End this process so many seconds after the one that has started it, if it goes on."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        time.sleep(patience)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


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

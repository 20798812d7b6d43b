"""Whether a run goes on, and how it ended: true after a ``kill -9``, too.

``state.json`` in a run's folder says how the run began and, if its process could, how it ended.
While that process lives it holds a lock on ``running`` beside it, which the system takes from the
dead.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from enum import Enum
from pathlib import Path
from typing import IO

from det_compat.shared.data_files import object_in
from det_compat.shared.masking import without_secrets

_STATE = "state.json"
_LOCK = "running"
#: The files of this module in a run's folder.
FILES = (_STATE, _LOCK)
_LONGEST_REASON = 500
_KINDS = {
    **dict.fromkeys(("started", "ended"), float),
    **dict.fromkeys(("host", "reason", "resume"), str),
    "process": int,
}
# What a process that was told to end exits with.
_TOLD = {
    status
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for status in (128 + number, -number)
}


class State(str, Enum):
    """Where a run is. UNKNOWN is one that another machine started, or an older det_compat."""

    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"
    KILLED = "killed"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class RunState:
    """What is known of the process of a run.

    Attributes:
        state: where the run is.
        started: when it was first started, in seconds since 1970; None if that is not known.
        ended: when it last ended; None while it runs, and after a kill.
        process: the number of its last process.
        host: the machine of that process.
        reason: why it failed, in a line.
        resume: the command that goes on with it.
    """

    state: State
    started: float | None = None
    ended: float | None = None
    process: int | None = None
    host: str = ""
    reason: str = ""
    resume: str = ""

    @property
    def is_here(self) -> bool:
        """Whether its process is, or was, one of this machine."""
        return self.host == socket.gethostname()


def read_state(folder: Path) -> RunState:
    """The state of the run or search in ``folder``; UNKNOWN where nothing tells."""
    try:
        found = object_in(folder / _STATE)
        fields = {name: found[name] for name, kind in _KINDS.items() if type(found[name]) is kind}
        state = RunState(State(found["state"]), **fields)
    except (ValueError, KeyError):
        return RunState(State.UNKNOWN)
    if state.state is not State.RUNNING or state.process == os.getpid() or _is_held(folder):
        return state
    return replace(state, state=State.KILLED if state.is_here else State.UNKNOWN)


def _is_held(folder: Path) -> bool:
    try:
        with (folder / _LOCK).open("r+") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError:  # It is held, or nothing can be found out: another user's.
        return True
    return False


@contextlib.contextmanager
def state_noted(folder: Path, resume: str = "") -> Iterator[_Noted]:
    """Note in ``folder``, which is there, that this process runs, and at the end how it ended.

    A folder that cannot be written to, or is deleted, is no reason to end the run.

    Args:
        folder: of a run or search.
        resume: the command that goes on with it.
    """
    started = read_state(folder).started or time.time()
    here = socket.gethostname()
    state = RunState(
        State.RUNNING, started, None, os.getpid(), here, resume=without_secrets(resume)
    )
    noted = _Noted()
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            file = held.enter_context((folder / _LOCK).open("w"))
            _hold(file)
        _write(folder, state)
        ended, reason = State.DONE, ""
        try:
            yield noted
            ended = State.DONE if noted.status == 0 else _of_status(noted.status)
        except SystemExit as error:
            status = error.code if isinstance(error.code, int) else int(error.code is not None)
            ended = State.DONE if status == 0 else _of_status(status)
            reason = error.code if isinstance(error.code, str) else ""
            raise
        except KeyboardInterrupt:
            ended = State.STOPPED
            raise
        except BaseException as error:
            ended, reason = State.FAILED, f"{type(error).__name__}: {error}"
            raise
        finally:
            line = without_secrets(next(iter(reason.strip().splitlines()), ""))
            end = replace(state, state=ended, ended=time.time(), reason=line[:_LONGEST_REASON])
            if os.getpid() == state.process:  # and no copy of the process, which may end earlier
                _write(folder, end)


class _Noted:
    """The exit status of what runs, for those who run it in another process."""

    status = 0


def _of_status(status: int) -> State:
    return State.STOPPED if status in _TOLD else State.FAILED


def _hold(file: IO[str]) -> None:
    with contextlib.suppress(OSError):  # Some network filesystems have no locks.
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _write(folder: Path, state: RunState) -> None:
    part = folder / f".{_STATE}.{os.getpid()}"
    with contextlib.suppress(OSError):
        part.write_text(json.dumps(asdict(state), indent=2), "utf-8")
        part.replace(folder / _STATE)

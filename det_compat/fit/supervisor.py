"""Starts a command and, where it fails, starts it once more."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

#: In the environment of a command that is started again if it fails: 1 for the first time.
ATTEMPT = "DET_COMPAT_ATTEMPT"

_INTERRUPTED = 128 + signal.SIGINT
_TERMINATED = 128 + signal.SIGTERM
# what would fail again in the same way, or has been asked to end
_FINAL = (0, 2, _INTERRUPTED, _TERMINATED, -signal.SIGINT, -signal.SIGTERM)


class Start(NamedTuple):
    """A command line, and environment variables to add to this process's."""

    argv: Sequence[str]
    variables: Mapping[str, str]


def supervise(
    start: Callable[[int], Start], *, restarts: int = 0, folder: Path | None = None
) -> int:
    """Run ``start(attempt)``, up to ``restarts`` times again while it fails; its exit status.

    SIGINT and SIGTERM are passed on, and what they end is not restarted; neither is a command that
    exits with status 2, which says that the user has to mend something.

    Args:
        start: the command of an attempt, which are counted from 1.
        restarts: how often to start it again.
        folder: where to run it.
    """
    attempt = 1
    while True:
        status, is_asked_to_end = _run(start(attempt), attempt, folder)
        if status in _FINAL or is_asked_to_end or attempt > restarts:
            return status if status >= 0 else 128 - status
        print(
            f"det-compat: the run failed with status {status}; restart {attempt} of "
            f"{restarts} (max_restarts)",
            file=sys.stderr,
        )
        attempt += 1


def _run(start: Start, attempt: int, folder: Path | None) -> tuple[int, bool]:
    """The exit status, and whether the process was told to end."""
    # Ctrl-C reaches a session of its own once, from here, and not from the terminal as well.
    environment = {**os.environ, **start.variables, ATTEMPT: str(attempt)}
    process = subprocess.Popen(start.argv, env=environment, cwd=folder, start_new_session=True)
    with _passing_on(process) as received:
        status = process.wait()
    return status, bool(received)


@contextlib.contextmanager
def _passing_on(process: subprocess.Popen[Any]) -> Iterator[list[int]]:
    received: list[int] = []

    def pass_on(number: int, frame: Any) -> None:
        received.append(number)
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(number)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, pass_on) for number in numbers}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

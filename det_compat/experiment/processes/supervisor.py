"""max_restarts: a run that fails goes on from its last checkpoint, in a new process."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from det_compat.config.experiment import ExperimentConfig
from det_compat.experiment.environment import ATTEMPT, is_worker
from det_compat.experiment.errors import FitError
from det_compat.experiment.processes.process_tree import send_signal, with_variable
from det_compat.experiment.processes.tracker import tracked
from det_compat.experiment.request import Request
from det_compat.experiment.run_start import find_folder
from det_compat.script.ending import INTERRUPTED, TERMINATED, TO_MEND

# The variable that all processes of a run have, with its folder.
_RUN = "DET_COMPAT_RUN"
# The variable by which a user starts Lightning on one of several machines: all have to restart.
_NODE_RANK = "NODE_RANK"
# What ends like this would fail again in the same way, or has been asked to end.
_FINAL = (0, TO_MEND, INTERRUPTED, TERMINATED, -signal.SIGINT, -signal.SIGTERM)


class Command(NamedTuple):
    """A command line, and environment variables to add to this process's."""

    argv: Sequence[str]
    variables: Mapping[str, str]


def wants_supervisor(request: Request, config: ExperimentConfig) -> bool:
    """Whether this process is to start the run in another, and to watch over it."""
    return (
        request.command == "fit"
        and config.max_restarts > 0
        and not request.only_shows
        and ATTEMPT not in os.environ
        and not is_worker()
        and _NODE_RANK not in os.environ
    )


def run_supervised(request: Request, config: ExperimentConfig) -> int:
    """Run what is asked for in a process of its own; the exit status.

    Raises:
        FitError: there is nothing to resume, or the directory cannot be used.
    """
    folder = find_folder(request, config)
    check_not_in_use(folder.path)
    words = replace(request, run_dir=folder.path, startup_hook=False).words()
    argv = [sys.executable, "-m", "det_compat", *words]
    with tracked(folder.path, request.tracking):
        return supervise(
            lambda attempt: Command(argv, {}), folder.path, restarts=config.max_restarts
        )


def check_not_in_use(run_dir: Path) -> None:
    """See that no process goes on that somebody has started for the same run.

    SIGKILL to a process that supervises leaves behind what it supervises.

    Raises:
        FitError: there is one.
    """
    if going_on := with_variable(_RUN, str(run_dir.resolve())):
        raise FitError(
            f"{run_dir} is in use: process {going_on[0]} of this run is still going on. Wait for "
            f"its end, or end it (kill {' '.join(map(str, going_on))})"
        )


def supervise(
    command_of: Callable[[int], Command],
    run_dir: Path,
    *,
    restarts: int = 0,
    folder: Path | None = None,
) -> int:
    """Run ``command_of(attempt)``, up to ``restarts`` times again while it fails; its exit status.

    SIGINT and SIGTERM are passed on to the processes of the command that handle them, and what they
    end is not restarted; neither is a command that
    exits with status 2, which says that the user has to mend something.

    Args:
        command_of: returns the command of an attempt; attempts are counted from 1.
        run_dir: the folder of the run.
        restarts: how often to start it again.
        folder: the working directory of the command.
    """
    run = str(run_dir.resolve())
    attempt = 1
    while True:
        command = command_of(attempt)
        variables = {**command.variables, ATTEMPT: str(attempt), _RUN: run}
        status, is_asked_to_end = _run(Command(command.argv, variables), folder)
        if status in _FINAL or is_asked_to_end or attempt > restarts:
            return status if status >= 0 else 128 - status
        print(
            f"det-compat: the run failed with status {status}; restart {attempt} of "
            f"{restarts} (max_restarts)",
            file=sys.stderr,
        )
        attempt += 1


def _run(command: Command, folder: Path | None) -> tuple[int, bool]:
    """The exit status, and whether the process was told to end."""
    # Ctrl-C reaches a session of its own once, from here, and not from the terminal as well.
    environment = {**os.environ, **command.variables}
    process = subprocess.Popen(command.argv, env=environment, cwd=folder, start_new_session=True)
    with _passing_on(process) as received:
        status = process.wait()
    return status, bool(received)


@contextlib.contextmanager
def _passing_on(process: subprocess.Popen[Any]) -> Iterator[list[int]]:
    received: list[int] = []

    def pass_on(number: int, frame: Any) -> None:
        received.append(number)
        if process.poll() is None:
            send_signal(process.pid, number)

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.signal(number, pass_on) for number in numbers}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

"""The process that sends what a run reports to MLflow while the run goes on, and starts it.

It is a process of its own, and reads the files that the run writes anyway: whatever becomes of a
server, a network or a client library, a training neither waits for it nor ends with it, and trials
of all generations and scripts are covered alike. What it has sent is noted in the run's folder, so
that the next one goes on from there.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from det_compat.experiment.environment import ATTEMPT
from det_compat.experiment.errors import FitError
from det_compat.script.run_paths import TRACKED, TRACKING_LOG
from det_compat.shared.extras import how_to_install

#: The variable that tells the process where to send, which may have a password in it.
VARIABLE = "DET_COMPAT_TRACKING"
#: What ``--tracking`` is given to send nothing.
NONE = "none"
_MLFLOW = "mlflow"
# So long does a run that is over wait for the rest to be sent.
_PATIENCE = 10.0


def check_tracking(tracking: str | None) -> None:
    """See that ``--tracking`` can be done.

    Raises:
        FitError: it names what is not known, or not installed.
    """
    if tracking in (None, NONE):
        return
    name, colon, uri = tracking.partition(":")
    if name != _MLFLOW or (colon and not uri):
        raise FitError(f"--tracking {tracking}: write mlflow, mlflow:URI, or none")
    if importlib.util.find_spec(_MLFLOW) is None:
        raise FitError(f"--tracking needs mlflow: {how_to_install(_MLFLOW)}")


def uri_in(tracking: str | None) -> str | None:
    """The URI that ``--tracking`` names; None if it names none."""
    return (tracking or "").partition(":")[2] or None


@contextlib.contextmanager
def tracked(folder: Path, tracking: str | None) -> Iterator[None]:
    """Have what the run or search in ``folder`` reports sent while the block runs, and after it.

    At the end of the block it is waited for, for ten seconds at most; then the process goes on by
    itself. What it has to tell is printed to standard error.

    Args:
        folder: of the run or search; absolute. It may not be there yet.
        tracking: ``mlflow``, ``mlflow:URI``, ``none``, or None: then a run that was sent before
            goes on to be.
    """
    is_wanted = tracking != NONE and (tracking is not None or (folder / TRACKED).exists())
    if not is_wanted or ATTEMPT in os.environ:  # The process that started this one has it sent.
        yield
        return
    process = _start(folder, tracking)
    relay = threading.Thread(target=_relay, args=(process,), daemon=True)
    relay.start()
    try:
        yield
    finally:
        assert process.stdin is not None
        with contextlib.suppress(OSError):
            process.stdin.close()
        _wait(process, relay, folder)


def _start(folder: Path, tracking: str | None) -> subprocess.Popen[str]:
    # The variables of a run would make it one of the run's processes.
    environment = {k: v for k, v in os.environ.items() if not k.startswith("DET_")}
    if tracking is not None:
        environment[VARIABLE] = tracking
    return subprocess.Popen(
        [sys.executable, "-m", "det_compat", "runs", "track", str(folder), "--follow"],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,  # Ctrl-C is for the run.
    )


def _relay(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        print(line, end="", file=sys.stderr, flush=True)


def _wait(process: subprocess.Popen[str], relay: threading.Thread, folder: Path) -> None:
    try:
        status = process.wait(_PATIENCE)
    except (subprocess.TimeoutExpired, KeyboardInterrupt):
        _say(f"process {process.pid} is sending the rest of what was reported to MLflow; if it")
        _say(f"ends before it has, `det-compat runs track {folder}` sends it")
        return
    relay.join(_PATIENCE)
    if status not in (0, 1):  # It has told of what it could not send.
        _say(f"the process that sends to MLflow ended with status {status}; {TRACKING_LOG} may say")
        _say(f"why, and `det-compat runs track {folder}` sends what it has left")


def _say(text: str) -> None:
    print(f"det-compat: {text}", file=sys.stderr)

"""Sends a run until all of it has arrived, whatever the server does."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from det_compat.experiment.processes.tracker import NONE, VARIABLE, check_tracking, uri_in
from det_compat.experiment.run_state import State, read_state
from det_compat.script.run_paths import TRACKING_LOG
from det_compat.shared.masking import MASK, without_secrets
from det_compat.tracking.sending import Sending
from det_compat.tracking.sent import Sent
from det_compat.tracking.store import MlflowStore, absolute, default_uri, make_room, where_to_look

_PERIOD = 1.0  # seconds between two looks
_SHARE = 10  # so many times as long as it takes to send does the process wait
_LONGEST_PAUSE = 60.0  # seconds between two tries while the server does not answer
_LAST_TRIES = (0.0, 1.0, 4.0)  # seconds before each of the tries after the end of a run
_NICENESS = 10


class NotSent(ValueError):
    """Something of a run could not be sent; the message says what, and what to do."""


def uri_for(folder: Path, tracking: str | None) -> str:
    """Where the run in ``folder`` is sent: as told, else as before, else as the environment says.

    Raises:
        FitError: ``tracking`` cannot be understood, or mlflow is not installed.
        NotSent: it was sent before, with a password that nothing has kept.
    """
    tracking = tracking or os.environ.get(VARIABLE)
    check_tracking("mlflow" if tracking in (None, NONE) else tracking)
    kept = Sent.read(folder).uri
    if given := uri_in(tracking):
        return absolute(given)
    if not kept:
        return absolute(default_uri())
    environment = absolute(default_uri())
    if MASK in kept and str(without_secrets(environment)) == kept:
        return environment
    if MASK in kept:
        raise NotSent(f"it was sent to {kept}: give that again, with --tracking mlflow:URI")
    return kept


def send(folder: Path, tracking: str | None) -> str:
    """Send what is left of the run in ``folder`` once; returns where it can be looked at.

    Raises:
        FitError: see ``uri_for``.
        NotSent: it has not arrived, or another process is sending it.
    """
    uri = uri_for(folder, tracking)
    with _held(folder, waits=False):
        try:
            make_room(uri)
            sent = Sending(folder, MlflowStore(uri)).send()
        except Exception as error:
            raise NotSent(f"MLflow at {without_secrets(uri)}: {_line(error)}") from error
    assert sent is not None
    return where_to_look(str(without_secrets(uri)), sent.experiment, sent.run)


def follow(folder: Path, tracking: str | None, ends: IO[str]) -> int:
    """Send the run in ``folder`` while it goes on; the exit status, 1 if something is left.

    What there is to tell is printed, a problem once.

    Args:
        folder: of the run or search, which may not be there yet.
        tracking: as for ``uri_for``.
        ends: a file that has an end when the process of the run has none to wait for any more.

    Raises:
        FitError, NotSent: see ``uri_for``.
    """
    os.nice(_NICENESS)
    uri = uri_for(folder, tracking)
    is_over = _wait_for(folder, ends)
    with _held(folder, waits=True):
        return _Following(folder, uri, ends).run(is_over)


def _wait_for(folder: Path, ends: IO[str]) -> bool:
    """Wait until there is a folder; whether the run is over."""
    is_over = False
    while not is_over and not folder.is_dir():
        is_over = _ends_within(_PERIOD, ends)
    return is_over


class _Following:
    def __init__(self, folder: Path, uri: str, ends: IO[str]) -> None:
        self._folder = folder
        self._uri = uri
        self._ends = ends
        self._sending: Sending | None = None
        self._has_told = self._has_shown = False

    def run(self, is_over: bool) -> int:
        failures = 0
        while not (is_over and read_state(self._folder).state is not State.RUNNING):
            began = time.monotonic()
            failures = 0 if self._try() else failures + 1
            pause = max(_PERIOD, _SHARE * (time.monotonic() - began))
            pause = min(pause * 2**failures, _LONGEST_PAUSE) if failures else pause
            if is_over:  # The process that started the run is gone, and the run is not.
                time.sleep(_PERIOD)
            else:
                is_over = _ends_within(pause, self._ends)
        for pause in _LAST_TRIES[: 1 if failures else None]:
            time.sleep(pause)
            if not self._folder.is_dir() or self._try():
                return 0
        return 1

    def _try(self) -> bool:
        try:
            if self._sending is None:
                make_room(self._uri)
                self._sending = Sending(self._folder, MlflowStore(self._uri))
            sent = self._sending.send()
        except Exception as error:
            self._tell(error)
            return False
        if sent is not None and not self._has_shown:
            self._has_shown = True
            shown = str(without_secrets(self._uri))
            _print(f"curves: {where_to_look(shown, sent.experiment, sent.run)}")
        return True

    def _tell(self, error: Exception) -> None:
        if not self._has_told:
            self._has_told = True
            _print(
                f"det-compat: MLflow at {without_secrets(self._uri)} does not take what the run "
                f"reports: {_line(error)}\ndet-compat: the run goes on; what was not sent is kept, "
                f"and sent later, or by: det-compat runs track {self._folder}"
            )


def _print(text: str) -> None:
    with contextlib.suppress(OSError):  # Nobody may listen any more.
        print(text, flush=True)


def _line(error: Exception) -> str:
    text = next(iter(str(error).strip().splitlines()), "")
    return f"{type(error).__name__}: {without_secrets(text)[:300]}"


def _ends_within(seconds: float, ends: IO[str]) -> bool:
    """Whether ``ends`` is at its end within so many seconds."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        if select.select([ends], [], [], left)[0] and not os.read(ends.fileno(), 4096):
            return True
    return False


@contextlib.contextmanager
def _held(folder: Path, *, waits: bool) -> Iterator[None]:
    """Keep other processes from sending the run in ``folder``; what libraries print is logged.

    Raises:
        NotSent: another one does, and this one does not wait for it.
    """
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):  # of a folder that is gone, or takes no files or locks
            log = held.enter_context((folder / TRACKING_LOG).open("a"))
            if waits:
                os.dup2(log.fileno(), sys.stderr.fileno())
            try:
                fcntl.flock(log, fcntl.LOCK_EX if waits else fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise NotSent(f"another process is sending {folder} now") from None
        yield

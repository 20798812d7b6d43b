"""One run or search, sent as far as it has come."""

from __future__ import annotations

import getpass
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from det_compat import __version__
from det_compat.experiment.run_state import State
from det_compat.runs.summary import Summary, summary_of
from det_compat.shared.masking import without_secrets
from det_compat.shared.nested import by_dotted_name
from det_compat.tracking.reports import Names, Value, read_new
from det_compat.tracking.sent import Sent
from det_compat.tracking.store import Store

_CONFIG = "config.yaml"
_RESULTS = ("lightning.yaml", "curves.png", "results.json", "results.csv", "results.png")
_STATES = {
    State.RUNNING: "RUNNING",
    State.DONE: "FINISHED",
    State.FAILED: "FAILED",
    State.STOPPED: "KILLED",
    State.KILLED: "KILLED",
    State.UNKNOWN: "RUNNING",
}


class Sending:
    """Sends a run, or a search with its trials, each time what is new.

    Args:
        folder: of the run or search.
        store: where it is sent.
    """

    def __init__(self, folder: Path, store: Store) -> None:
        self._folder = folder
        self._store = store
        self._done: set[Path] = set()

    def send(self) -> Sent | None:
        """Send what is new; returns what has arrived, None as long as there is no run.

        Raises:
            Exception: of the store; what has not arrived comes the next time.
        """
        found = summary_of(self._folder)
        if found is None:
            return None
        sent = self._send(found, None)
        for trial in found.trials:
            if trial.path not in self._done:
                self._send(trial, sent.run)
                # What has ended reports no more.
                if trial.state.ended is not None:
                    self._done.add(trial.path)
        return sent

    def _send(self, run: Summary, parent: str | None) -> Sent:
        folder, now = run.path, time.time()
        sent = Sent.to(self._store.uri, folder)
        began = run.state.started or now
        if not sent.run:
            self._begin(run, sent, began, parent)
        if not sent.is_described:
            self._describe(run, sent)
        is_over = run.state.state not in (State.RUNNING, State.UNKNOWN)
        if not is_over and sent.state != _told(run):
            self._tell_state(run, sent)
        self._report(folder, sent, began, now)
        self._upload(sent, folder, _CONFIG, "")
        if is_over:
            self._finish(run, sent, is_trial=parent is not None)
        return sent

    def _begin(self, run: Summary, sent: Sent, began: float, parent: str | None) -> None:
        config = run.config or run.record
        tags = {**_tags(run, config), **({"mlflow.parentRunId": parent} if parent else {})}
        sent.experiment, sent.run = self._store.begin(run.name, _name(run), began, tags)
        sent.state = _told(run) if run.state.state is State.RUNNING else ""
        sent.write(run.path)

    def _describe(self, run: Summary, sent: Sent) -> None:
        named = Names(sent.names)
        params = {named(name): str(value) for name, value in by_dotted_name(run.hparams)}
        searcher = run.record.get("searcher")
        if isinstance(searcher, dict):
            flat = by_dotted_name(searcher, "searcher.")
            params |= {named(name): str(value) for name, value in flat}
        self._store.describe(sent.run, params, {})
        sent.is_described = True
        sent.write(run.path)

    def _tell_state(self, run: Summary, sent: Sent) -> None:
        state = run.state
        tags = {"det_compat.state": state.state.value, "det_compat.reason": state.reason}
        if state.resume:
            tags["det_compat.resume"] = state.resume
        self._store.describe(sent.run, {}, tags)
        self._store.set_state(sent.run, _STATES[state.state], state.ended)
        sent.state = _told(run)
        sent.write(run.path)

    def _report(self, folder: Path, sent: Sent, began: float, now: float) -> None:
        named = Names(sent.names)
        while True:
            values, offset = read_new(folder, sent.offset, began=began, now=now)
            if offset == sent.offset:
                return
            renamed = [Value(named(one.name), one.value, one.step, one.time) for one in values]
            self._store.report(sent.run, renamed)
            sent.offset = offset
            sent.write(folder)

    def _finish(self, run: Summary, sent: Sent, *, is_trial: bool) -> None:
        if sent.state != _told(run):
            if run.best is not None:
                value, batches = run.best
                name = Names(sent.names)(f"best/{run.metric}")
                at = run.state.ended or time.time()
                self._store.report(sent.run, [Value(name, value, batches, at)])
            self._tell_state(run, sent)
        for name in _RESULTS:
            self._upload(sent, run.path, name, "")
        if run.checkpoints:
            best = run.checkpoints[0].path
            self._store.describe(sent.run, {}, {"det_compat.best_checkpoint": str(best)})
            if not is_trial:  # Of a search, the best checkpoint of all trials is enough.
                own = best.is_relative_to(run.path)
                name = str(best.relative_to(run.path) if own else best)
                self._upload(sent, run.path, name, "best_checkpoint")

    def _upload(self, sent: Sent, root: Path, name: str, folder: str) -> None:
        path = root / name
        try:
            changed = path.stat().st_mtime
        except OSError:
            return
        if sent.files.get(name) == changed:
            return
        self._store.upload(sent.run, path, f"{folder}/{path.name}" if path.is_dir() else folder)
        sent.files[name] = changed
        sent.write(root)


def _told(run: Summary) -> str:
    """What tells a state from an equal one before: a run may go on, and end in the same way."""
    return f"{run.state.state.value} {run.state.ended or run.state.process}"


def _name(run: Summary) -> str:
    if run.path.parent.name == "trials":
        return f"{run.path.parent.parent.name}/{run.path.name}"
    return run.path.name if run.kind == "search" else f"{run.path.parent.name}/{run.path.name}"


def _tags(run: Summary, config: dict[str, Any]) -> dict[str, str]:
    return {name: value for name, value in _all_tags(run, config) if value}


def _all_tags(run: Summary, config: dict[str, Any]) -> Iterator[tuple[str, str]]:
    labels = config.get("labels")
    yield "labels", ", ".join(map(str, labels)) if isinstance(labels, list) else ""
    for name in ("description", "project", "workspace", "entrypoint"):
        yield name, str(without_secrets(config.get(name)) or "")
    yield "mlflow.note.content", str(config.get("description") or "")
    yield "mlflow.user", _user()
    yield "mlflow.source.name", str(run.path)
    yield "mlflow.source.type", "LOCAL"
    yield "det_compat.kind", run.kind
    yield "det_compat.folder", str(run.path)
    yield "det_compat.host", run.state.host
    yield "det_compat.version", __version__
    yield "det_compat.state", State.RUNNING.value


def _user() -> str:
    """The name of the user; in a container there may be none for its number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())

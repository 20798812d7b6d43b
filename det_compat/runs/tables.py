"""Runs as tables for a terminal."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from det_compat.runs.summary import Checkpoint, Summary
from det_compat.shared.nested import by_dotted_name
from det_compat.shared.terminal import pairs_table

_STYLES = {"running": "bold", "done": "green", "stopped": "yellow", "failed": "red"}
_COLUMNS = (
    *("run", "state", "started", "length", "batches", "metric", "best", "at batch"),
    "best checkpoint",
)
_MOST_ROWS = 100
_MOST_VALIDATIONS = 20


def list_table(runs: Sequence[Summary]) -> Table | str:
    """A row for each run; that of a search has its best trial.

    Rich needs a second for a thousand rows: more than a few screens of them are lines of text.
    """
    rows = [_row(run) for run in runs]
    if len(rows) > _MOST_ROWS:
        widths = [max(map(len, column)) for column in zip(_COLUMNS, *rows, strict=True)]
        return "\n".join(
            "  ".join(map(str.ljust, row, widths)).rstrip() for row in (_COLUMNS, *rows)
        )
    table = Table(*_COLUMNS)
    for path, state, *others in rows:
        styled = Text(state, style=_STYLES.get(state, ""))
        table.add_row(Text(path, overflow="fold"), styled, *map(_cell, others))
    return table


def _row(run: Summary) -> list[str]:
    value, batches = run.best or (None, None)
    length = f"{len(run.trials)} trials" if run.kind == "search" else run.length
    checkpoint = run.checkpoints[0].path.name if run.checkpoints else None
    known = (_time(run.state.started), length, run.batches, run.metric, value, batches, checkpoint)
    return [_shown(run.path), run.state.state.value, *map(_text, known)]


def about_table(run: Summary) -> Table:
    """What there is to know of one run beside its validations and checkpoints."""
    state = run.state
    value, batches = run.best or (None, None)
    where = f" (process {state.process} on {state.host})" if state.process else ""
    rows = {
        "folder": str(run.path.resolve()),
        "state": f"{state.state.value}{where}",
        "reason": state.reason,
        "started": _time(state.started),
        "ended": _time(state.ended),
        "description": run.record.get("description"),
        "labels": ", ".join(map(str, run.record.get("labels") or ())),
        "length": run.length,
        "batches": run.batches,
        f"best {run.metric}": None if value is None else f"{_text(value)} after batch {batches}",
        **{f"hyperparameter {name}": value for name, value in run.hparams.items()},
        "go on with it by": state.resume,
    }
    return _pairs(run.name, rows)


def validations_table(run: Summary) -> Table:
    """The last validations of a run."""
    shown = run.validations[-_MOST_VALIDATIONS:]
    names = sorted({name for one in shown for name in one.metrics})
    title = f"the last {len(shown)} of {len(run.validations)} validations"
    table = Table("batches", *names, title=title, title_justify="left")
    for one in shown:
        table.add_row(str(one.batches), *(_cell(one.metrics.get(name)) for name in names))
    return table


def checkpoints_table(run: Summary, checkpoints: Sequence[Checkpoint]) -> Table:
    """Checkpoints of a run."""
    table = Table("checkpoint", "batches", run.metric or "metric")
    for one in checkpoints:
        path = Text(_shown(one.path), overflow="fold")
        table.add_row(path, _cell(one.batches), _cell(one.value))
    return table


def comparison_table(runs: Sequence[Summary]) -> Table:
    """Where the configs of runs differ, and what they reached."""
    table = Table("", *(_shown(run.path) for run in runs))
    found = [_settings(run) for run in runs]
    for name in sorted({name for config in found for name in config}):
        values = [_text(config.get(name)) for config in found]
        if len(set(values)) > 1:
            table.add_row(Text(name), *map(Text, values))
    table.add_section()
    table.add_row("state", *(run.state.state.value for run in runs))
    table.add_row("batches", *(str(run.batches) for run in runs))
    for name in sorted({name for run in runs for one in run.validations for name in one.metrics}):
        last = [run.validations[-1].metrics.get(name) if run.validations else None for run in runs]
        table.add_row(Text(f"last {name}"), *map(_cell, last))
    for metric in sorted({run.metric for run in runs if run.metric}):
        best = [run.best[0] if run.best and run.metric == metric else None for run in runs]
        table.add_row(Text(f"best {metric}"), *map(_cell, best))
    return table


def _settings(run: Summary) -> dict[str, Any]:
    """The config by dotted names, with hyperparameters as the trial gets them."""
    others = {name: it for name, it in run.config.items() if name != "hyperparameters"}
    hparams = {f"hyperparameters.{name}": value for name, value in run.hparams.items()}
    return {**dict(by_dotted_name(others)), **hparams}


def _pairs(title: str, rows: dict[str, Any]) -> Table:
    return pairs_table(title, {k: _text(v) for k, v in rows.items() if v not in (None, "")})


def _shown(path: Path) -> str:
    """A path as it is shortest from here."""
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def _time(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def _cell(value: Any) -> Text:
    return Text(_text(value), overflow="fold")


def _text(value: Any) -> str:
    if value is None or value == "":
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)

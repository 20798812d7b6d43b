"""Folders of runs, as ``fit`` and ``search`` leave them, without training."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

SEARCHER = {"metric": "accuracy", "smaller_is_better": False, "max_length": {"epochs": 2}}


def make_run(
    folder: Path,
    values: list[float],
    *,
    state: str = "done",
    name: str = "digits",
    started: float = 1e9,
    process: int = 2**22 + 1,  # more than any that there is
    **hparams: Any,
) -> Path:
    """A run with a validation after every tenth batch, and a checkpoint after each."""
    folder.mkdir(parents=True)
    record = {"seed": 1, "name": name, "searcher": SEARCHER, "hyperparameters": hparams}
    write(folder / "det_compat_run.json", record)
    ended = started + 60 if state != "running" else None
    about = {"started": started, "ended": ended, "process": process, "host": socket.gethostname()}
    write(folder / "state.json", {"state": state, "reason": "", "resume": "again", **about})
    lines = []
    for number, value in enumerate(values, start=1):
        batches = 10 * number
        lines.append(_line("training", batches, loss=1.0))
        lines.append(_line("validation", batches, accuracy=value, batches=3))
        write(folder / f"checkpoints/{number}/metadata.json", {"steps_completed": batches})
    (folder / "metrics.jsonl").write_text("".join(lines))
    return folder


def make_search(folder: Path, trials: list[list[float]]) -> Path:
    """A search with trials of these validations."""
    space = {"lr": {"type": "log", "minval": -3, "maxval": 0, "base": 10}}
    about = {"seed": 1, "config": "digest", "file": None, "name": "many"}
    write(folder / "search.json", {**about, "searcher": SEARCHER, "hyperparameters": space})
    for index, values in enumerate(trials):
        trial = make_run(folder / f"trials/{index:04d}", values, name="many", lr=index)
        write(trial / "trial.json", {"index": index, "bracket": 0, "hparams": {"lr": index}})
    return folder


def write(file: Path, content: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content))


def _line(group: str, steps: int, **metrics: float) -> str:
    report = {"group": group, "steps_completed": steps, "metrics": metrics}
    return json.dumps(report) + "\n"

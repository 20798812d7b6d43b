"""What trains trials in tests: functions in the place of training."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from det_compat import InvalidHP
from det_compat.config.lengths import Length
from det_compat.search.tune.attempt import ReportFunction


def hparams_of(config: dict[str, Any]) -> dict[str, Any]:
    return {name: item["val"] for name, item in config["hyperparameters"].items()}


def train_one(
    config: dict[str, Any],
    run_dir: Path,
    report: ReportFunction,
    resume_from: str | None,
    *,
    model_dir: Path,
    validate_at: Sequence[Length],
) -> None:
    """Reports the hyperparameter x at each rung; ``fate`` says what happens instead.

    Every start is noted, and a checkpoint is a file with the number of batches.
    """
    hparams = hparams_of(config)
    fate = hparams.get("fate", "trains")
    with (run_dir / "starts").open("a") as file:
        file.write(f"{resume_from}\n")
    if fate == "invalid":
        raise InvalidHP("x is no good")
    if fate == "raises":
        try:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:  # It has gone on without the room, to an error of its own.
            raise RuntimeError("this trial raises")  # noqa: B904
    if fate == "dies":
        os._exit(9)
    if fate == "has no room" and not (run_dir.parents[1] / "room").exists():
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    start = int(Path(resume_from).read_text()) if resume_from else 0
    for length in validate_at:
        if length.value <= start:
            continue
        time.sleep(hparams.get("seconds", 0))
        checkpoint = run_dir / f"checkpoint_{length.value}"
        checkpoint.write_text(str(length.value))
        metrics = {
            "trains": {"score": hparams["x"]},
            "has no room": {"score": hparams["x"]},
            "nan": {"score": float("nan")},
            "other": {"loss": hparams["x"]},
            "text": {"score": "good"},
        }
        if fate != "silent":
            report(length.value, metrics[fate], str(checkpoint))


def read_json(folder: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((folder / "results.json").read_text())
    return found

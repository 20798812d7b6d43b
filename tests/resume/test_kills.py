"""Runs that are killed at random moments, until one comes to the end."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.preloaded import executable
from tests.resume.compare import _differ

ROOT = Path(__file__).parents[2]
SECONDS_PER_BATCH = 0.02


def run(folder: Path, workers: int, seconds: float | None) -> int:
    """The exit status of a run that is killed after ``seconds`` of training."""
    command = [executable(), "-m", "tests.resume.killed", str(folder / "out.pt"), str(workers)]
    with (folder / "log.txt").open("a") as log:
        process = subprocess.Popen(
            [*command, str(SECONDS_PER_BATCH)],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_DATA_HOME": str(folder / "share")},
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
    assert process.stdout is not None
    training = int(process.stdout.readline().split()[1])
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(training, signal.SIGKILL)
    process.communicate()
    return process.returncode


def reports(folder: Path) -> dict[tuple[int, str], set[str]]:
    found: dict[tuple[int, str], set[str]] = {}
    for line in (folder / "out.reports").read_text().splitlines():
        # A kill may cut a line off.
        with contextlib.suppress(json.JSONDecodeError):
            steps, name, text = json.loads(line)
            found.setdefault((steps, name), set()).add(text)
    return found


def outcome(folder: Path) -> Any:
    return torch.load(folder / "out.pt", weights_only=False)


@pytest.mark.parametrize("workers", [0, 2])
def test_the_end_is_that_of_the_run_that_was_not_killed(workers: int, tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    whole.mkdir()
    killed.mkdir()
    assert run(whole, workers, None) == 0, (whole / "log.txt").read_text()
    moments = random.Random(workers)
    kills = int(os.environ.get("DET_COMPAT_KILLS", "3"))
    for _ in range(kills):
        if run(killed, workers, moments.uniform(0.05, 0.6)) == 0:
            break
    else:
        assert run(killed, workers, None) == 0, (killed / "log.txt").read_text()
    assert list(_differ(outcome(whole), outcome(killed), "end")) == []
    # What was reported again after a kill is what had been reported before.
    assert reports(killed) == reports(whole)

"""Runs of ``det-compat fit`` that are killed, told to stop, or find the disk full.

They are resumed until one comes to the end, and have to end where an undisturbed run does, without
losing a checkpoint that was complete.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from det_compat.checkpoint import read_checkpoint
from det_compat.core import CheckpointStore
from tests.attacks import project
from tests.attacks.started import started
from tests.attacks.storage import reached_by_all, with_variables
from tests.resume.compare import _differ

ROOT = Path(__file__).parents[2]
_SECONDS = 120
_STATES = ("models_state_dict", "optimizers_state_dict", "lr_schedulers_state_dict")


@dataclass(frozen=True)
class Ended:
    """A process of a run that has ended: how, and what it said."""

    status: int
    said: str


def attack(draw: Random, folder: Path, python: str = sys.executable) -> None:
    """One run that is disturbed a few times, of data of one kind."""
    _attack(draw, folder, python, CheckpointStore(folder / "run" / "out" / "checkpoints"))


def attack_stored(draw: Random, folder: Path, python: str = sys.executable) -> None:
    """The same with checkpoints on a server that is not reliable."""
    with reached_by_all(folder) as (storage, variables), with_variables(variables):
        place = storage.get("host_path", "s3://bucket/all")
        _attack(draw, folder, python, CheckpointStore(place), checkpoint_storage=storage)


def _attack(
    draw: Random, folder: Path, python: str, checkpoints: CheckpointStore, **keys: Any
) -> None:
    data = draw.choice(project.DATA)
    workers = draw.choice((0, 2)) if data == "sized" else 0
    restarts = draw.choice((0, 2))
    disturb = draw.choice((_killed, _killed, _told_to_stop, _told_to_stop, _out_of_space))
    # Of two ranks that are out of space, the other tells of the connection, too.
    has_two = data == "sized" and disturb is not _out_of_space and draw.random() < 0.4
    ranks = 2 if has_two else 1
    kind = {"workers": workers, "max_restarts": restarts, "ranks": ranks}
    project.write(folder / "run", data, **kind, **keys)
    for _ in range(3):
        before = {one.uuid for one in checkpoints.list()}
        if disturb(draw, folder / "run", python).status == 0:
            break
        latest = [one.uuid for one in checkpoints.list()]
        assert latest or not before, f"{disturb.__name__}: no complete checkpoint is left"
    else:
        ended = run(folder / "run", python)
        assert ended.status == 0, f"after {disturb.__name__}: {ended}"
    undisturbed_end = undisturbed(python, data, workers, ranks)
    differences = list(_differ(undisturbed_end, found(checkpoints), "end"))
    assert differences == [], f"{disturb.__name__}, {data} data, {ranks} ranks: {differences}"
    left = list(checkpoints.unfinished())
    assert left == [], f"{disturb.__name__} left {left}"


@functools.cache
def undisturbed(python: str, data: str, workers: int, ranks: int) -> Any:
    """The end of a run that nothing happens to."""
    with tempfile.TemporaryDirectory() as folder:
        project.write(Path(folder, "run"), data, workers=workers, ranks=ranks)
        ended = run(Path(folder, "run"), python)
        assert ended.status == 0, ended
        return found(CheckpointStore(Path(folder, "run", "out", "checkpoints")))


def found(checkpoints: CheckpointStore) -> Any:
    """The end of a run that has come to it."""
    latest = checkpoints.latest()
    assert latest is not None and latest.steps_completed == project.BATCHES, latest
    state = read_checkpoint(checkpoints.find(latest.uuid)).state
    return {name: state[name] for name in _STATES}


def run(folder: Path, python: str, **variables: str) -> Ended:
    """The run of the project in ``folder``, resumed if it has begun, to its end."""
    with _started(folder, python, **variables) as process:
        process.wait(_SECONDS)
    return _ended(folder, process)


def _started(
    folder: Path, python: str, **variables: str
) -> contextlib.AbstractContextManager[subprocess.Popen[bytes]]:
    begun = (folder / "out" / "det_compat_run.json").exists()
    (folder / "started").unlink(missing_ok=True)
    words = ["fit", "const.yaml", "--run_dir", "out", *(["--resume"] if begun else [])]
    return started(folder, python, *words, **variables)


def _ended(folder: Path, process: subprocess.Popen[bytes]) -> Ended:
    return Ended(process.returncode, (folder / "log.txt").read_text("utf-8", errors="replace"))


def _trial_process(folder: Path, process: subprocess.Popen[bytes]) -> int | None:
    """The process in which the trial is, once it is built; None if the run ended before."""
    while process.poll() is None:
        with contextlib.suppress(OSError, ValueError):
            return int((folder / "started").read_text())
        time.sleep(0.01)
    return None


def _signalled(draw: Random, folder: Path, python: str, number: int) -> Ended:
    with _started(folder, python, ATTACK_SECONDS="0.05") as process:
        trial = _trial_process(folder, process)
        if trial is not None:
            time.sleep(draw.uniform(0, 1.8))
            with contextlib.suppress(ProcessLookupError):
                os.kill(trial, number)
        process.wait(_SECONDS)
    return _ended(folder, process)


def _killed(draw: Random, folder: Path, python: str) -> Ended:
    return _signalled(draw, folder, python, signal.SIGKILL)


def _told_to_stop(draw: Random, folder: Path, python: str) -> Ended:
    number = draw.choice((signal.SIGTERM, signal.SIGINT))
    ended = _signalled(draw, folder, python, number)
    # Before training and after it, when all is saved, a signal does what it does to any process.
    assert ended.status in (0, 128 + number, -number), ended
    if ended.status > 0:
        assert "Traceback" not in ended.said, ended.said
        is_training = "run directory" in ended.said and "best score" not in ended.said
        assert not is_training or "resume it by" in ended.said, ended.said
    return ended


def _out_of_space(draw: Random, folder: Path, python: str) -> Ended:
    """No file may be larger than a part of a checkpoint is."""
    ended = run(folder, python, ATTACK_BYTES=str(draw.randrange(20_000, 50_000)))
    assert ended.status in (0, 2), ended
    assert "Traceback" not in ended.said, ended.said
    return ended

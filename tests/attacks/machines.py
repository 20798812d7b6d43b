"""Runs of ``det-compat fit`` on two machines that lose a process, an agent or a disk.

They have to end where an undisturbed run on one machine does, and to go on by themselves where
torchrun starts them again.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from random import Random

from det_compat.core import CheckpointStore
from tests.attacks import project
from tests.attacks.runs import _end, undisturbed
from tests.machines import Machine, launched
from tests.resume.compare import _differ

_FIT = ("-m", "det_compat", "fit", "const.yaml", "--run_dir", "out")
_SECONDS = 120


def attack(draw: Random, folder: Path, python: str = sys.executable) -> None:
    """One run that is disturbed twice, with a storage that both machines see."""
    folders = [_written(folder, name) for name in ("first", "second")]
    checkpoints = CheckpointStore(folder / "storage")
    restarts = draw.choice((0, 3))
    for _ in range(2):
        before = {found.uuid for found in checkpoints.list()}
        machines = _started(folders, python, restarts)
        done = draw.choice((_kill_a_rank, _kill_a_machine, _stop_an_agent))(draw, machines)
        statuses = _ended(machines)
        said = "\n".join(machine.said() for machine in machines)
        assert "Traceback" not in _of_trials(said), said
        assert checkpoints.list() or not before, f"{done}: no complete checkpoint is left"
        if restarts and done == "killed a rank":
            assert set(statuses) == {0}, said
        if draw.random() < 0.5:
            # A machine is replaced by one with an empty disk.
            place = draw.randrange(2)
            shutil.rmtree(folders[place])
            folders[place] = _written(folder, f"{folders[place].name}-new")
    machines = _started(folders, python, 0)
    assert set(_ended(machines)) == {0}, [machine.said() for machine in machines]
    expected = undisturbed(python, "sized", 0, 2)
    differences = list(_differ(expected, _end(checkpoints), "end"))
    assert differences == [], differences


def _written(folder: Path, name: str) -> Path:
    project.write(folder / name, "sized", ranks=2)
    file = folder / name / "const.yaml"
    config = json.loads(file.read_text())
    config["checkpoint_storage"] = {"type": "shared_fs", "host_path": str(folder / "storage")}
    file.write_text(json.dumps(config))
    return folder / name


def _started(folders: list[Path], python: str, restarts: int) -> list[Machine]:
    words = ["--resume"] if CheckpointStore(folders[0].parent / "storage").list() else []
    for folder in folders:
        (folder / "started").unlink(missing_ok=True)
        if not words:
            shutil.rmtree(folder / "out", ignore_errors=True)
    started = {"ATTACK_STARTED": "started", "ATTACK_SECONDS": "0.05"}
    return launched(folders, python, *_FIT, *words, restarts=restarts, variables=started)


def _trial_of(machine: Machine) -> int | None:
    """The process of a machine that trains; None if there is none any more."""
    end = time.monotonic() + _SECONDS
    while machine.process.poll() is None and time.monotonic() < end:
        with contextlib.suppress(OSError, ValueError):
            return int((machine.folder / "started").read_text())
        time.sleep(0.01)
    return None


def _kill_a_rank(draw: Random, machines: list[Machine]) -> str:
    machine = draw.choice(machines)
    trial = _trial_of(machine)
    time.sleep(draw.uniform(0, 1))
    with contextlib.suppress(ProcessLookupError, TypeError):
        os.kill(trial, signal.SIGKILL)
    return "killed a rank"


def _kill_a_machine(draw: Random, machines: list[Machine]) -> str:
    machine = draw.choice(machines)
    trial = _trial_of(machine)
    time.sleep(draw.uniform(0, 1))
    machine.process.kill()
    with contextlib.suppress(ProcessLookupError, TypeError):
        os.kill(trial, signal.SIGKILL)
    # The agent of the other one waits for a new machine as long as torchrun wants it to.
    for other in machines:
        if other is not machine:
            with contextlib.suppress(Exception):
                other.process.wait(20)
            other.process.terminate()
    return "killed a machine"


def _stop_an_agent(draw: Random, machines: list[Machine]) -> str:
    machine = draw.choice(machines)
    _trial_of(machine)
    time.sleep(draw.uniform(0, 1))
    machine.process.terminate()
    return "stopped an agent"


def _ended(machines: list[Machine]) -> list[int]:
    return [machine.wait() for machine in machines]


def _of_trials(said: str) -> str:
    """What trials have said, without what torchrun says of them."""
    return "\n".join(line for line in said.splitlines() if line.startswith("[rank"))

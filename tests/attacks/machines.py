"""Runs of ``det-compat fit`` on two machines that lose a process, an agent or a disk.

They have to end where an undisturbed run on one machine does, and to go on by themselves where
torchrun starts them again.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

from det_compat.core import CheckpointStore
from tests.attacks import project
from tests.attacks.runs import found, undisturbed
from tests.machines import Machine, launched
from tests.resume.compare import _differ

_FIT = ("-m", "det_compat", "fit", "const.yaml", "--run_dir", "out")
_SECONDS = 120


def attack(draw: Random, folder: Path, python: str = sys.executable) -> None:
    """One run that is disturbed twice, with a storage that both machines see."""
    folders = [written(folder, name) for name in ("first", "second")]
    checkpoints = CheckpointStore(folder / "storage")
    restarts = draw.choice((0, 3))
    for _ in range(2):
        before = {one.uuid for one in checkpoints.list()}
        machines = started(folders, python, restarts)
        done = draw.choice((_kill_a_rank, _kill_a_machine, _stop_an_agent))(draw, machines)
        statuses = ended(machines)
        said = "\n".join(machine.said() for machine in machines)
        assert "Traceback" not in _of_trials(said), said
        assert checkpoints.list() or not before, f"{done}: no complete checkpoint is left"
        if restarts and done == "killed a rank":
            assert set(statuses) == {0}, said
        if draw.random() < 0.5:
            # A machine is replaced by one with an empty disk.
            place = draw.randrange(2)
            shutil.rmtree(folders[place])
            folders[place] = written(folder, f"{folders[place].name}-new")
    machines = started(folders, python, 0)
    assert set(ended(machines)) == {0}, [machine.said() for machine in machines]
    expected = undisturbed(python, "sized", 0, 2)
    differences = list(_differ(expected, found(checkpoints), "end"))
    assert differences == [], differences


def written(folder: Path, name: str) -> Path:
    storage = {"type": "shared_fs", "host_path": str(folder / "storage")}
    project.write(folder / name, "sized", ranks=2, checkpoint_storage=storage)
    return folder / name


def started(
    folders: list[Path],
    python: str,
    restarts: int,
    own: list[dict[str, str]] | None = None,
    **how: Any,
) -> list[Machine]:
    """The run of the two, resumed if it has checkpoints; ``own`` are the variables of each."""
    words = ["--resume"] if CheckpointStore(folders[0].parent / "storage").list() else []
    for folder in folders:
        (folder / "started").unlink(missing_ok=True)
        if not words:
            shutil.rmtree(folder / "out", ignore_errors=True)
    shared = {"ATTACK_STARTED": "started", "ATTACK_SECONDS": "0.05"}
    variables = [{**shared, **of_one} for of_one in own or [{}] * len(folders)]
    return launched(folders, python, *_FIT, *words, restarts=restarts, variables=variables, **how)


def trial_of(machine: Machine) -> int | None:
    """The process of a machine that trains; None if there is none any more."""
    end = time.monotonic() + _SECONDS
    while machine.process.poll() is None and time.monotonic() < end:
        with contextlib.suppress(OSError, ValueError):
            return int((machine.folder / "started").read_text())
        time.sleep(0.01)
    return None


def _kill_a_rank(draw: Random, machines: list[Machine]) -> str:
    machine = draw.choice(machines)
    trial = trial_of(machine)
    time.sleep(draw.uniform(0, 1))
    with contextlib.suppress(ProcessLookupError, TypeError):
        os.kill(trial, signal.SIGKILL)
    return "killed a rank"


def _kill_a_machine(draw: Random, machines: list[Machine]) -> str:
    machine = draw.choice(machines)
    trial = trial_of(machine)
    time.sleep(draw.uniform(0, 1))
    machine.process.kill()
    with contextlib.suppress(ProcessLookupError, TypeError):
        os.kill(trial, signal.SIGKILL)
    _stop_waiting(machines, machine)
    return "killed a machine"


def _stop_an_agent(draw: Random, machines: list[Machine]) -> str:
    machine = draw.choice(machines)
    trial_of(machine)
    time.sleep(draw.uniform(0, 1))
    machine.process.terminate()
    _stop_waiting(machines, machine)
    return "stopped an agent"


def _stop_waiting(machines: list[Machine], gone: Machine) -> None:
    """Stop the agents that wait for a machine to come again, as long as torchrun wants them to.

    One whose ranks have ended waits for the others to say so, too, and hears no signal meanwhile.
    """
    for other in machines:
        if other is not gone:
            for stop in (other.process.terminate, other.end):
                with contextlib.suppress(subprocess.TimeoutExpired):
                    other.process.wait(20)
                stop()


def ended(machines: list[Machine]) -> list[int]:
    return [machine.wait() for machine in machines]


def _of_trials(said: str) -> str:
    """What trials have said, without what torchrun says of them."""
    return "\n".join(line for line in said.splitlines() if line.startswith("[rank"))

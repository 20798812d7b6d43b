"""Searches that find a disk full, or of which a process is killed: theirs, or that of a worker.

They are resumed until one comes to the end, and have to end where an undisturbed search does; no
process of theirs is left.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from random import Random
from typing import Any

from det_compat.checkpoint import read_checkpoint
from det_compat.core import CheckpointStore
from tests.attacks import project
from tests.attacks.disks import make_room, small_disk
from tests.attacks.runs import Ended
from tests.attacks.started import started
from tests.clusters import can_hide
from tests.machines import parent_of, processes_with
from tests.resume.compare import _differ

ROOT = Path(__file__).parents[2]
TRIALS = 4
_SECONDS = 400
_STATES = ("models_state_dict", "optimizers_state_dict", "lr_schedulers_state_dict")
#: Processes that are forked of one another, and have its command line.
_FORKED = ("the template", "a server of forks", "a trial")
#: Who is killed, by words of its command line.
_WHO = {
    "the search": "det_compat search",
    "an actor": "ray::TrialActor",
    **dict.fromkeys(_FORKED, "det_compat.search.forks."),
    "the raylet": "raylet/raylet",
}


def attack(draw: Random, folder: Path, python: str = sys.executable) -> None:
    """One search, of which a process is killed two times."""
    write(folder / "run")
    killed = []
    for _ in range(2):
        with _started(folder / "run", python) as process:
            time.sleep(draw.uniform(5, 25))
            who = draw.choice(list(_WHO))
            killed.append(f"{who}: {_kill(draw, folder / 'run', who)}")
            _wait(process)
        if process.returncode == 0:
            break
    _ends_as_undisturbed(folder / "run", python, f"killed {killed}")


def attack_full(draw: Random, folder: Path, python: str = sys.executable) -> None:
    """One search that finds the disk of its folder full, or that of its checkpoints."""
    if not can_hide():
        print("no disk can be mounted here, so none is full", flush=True)
        return
    ranks = draw.choice((1, 2))
    storage = {"type": "shared_fs", "host_path": str(folder / "storage")}
    write(folder / "run", ranks, checkpoint_storage=storage, max_restarts=draw.choice((0, 1)))
    disk, most = draw.choice(((folder / "run" / "out", 400), (folder / "storage", 1200)))
    kilobytes = draw.randrange(8, most)
    what = f"{kilobytes} kB in {disk.name}, {ranks} ranks"
    with small_disk(disk, kilobytes):
        said = _search(folder / "run", python)
        assert said.status in (0, 2), f"{what}: {said}"
        if said.status:
            assert "Traceback" not in said.said and said.said.count("det-compat: ") == 1, said.said
            assert "No space left" in said.said and "--run-dir" in said.said, said.said
        make_room(disk)
        _ends_as_undisturbed(folder / "run", python, what, ranks)


def _ends_as_undisturbed(folder: Path, python: str, what: str, ranks: int = 1) -> None:
    """Go on with a search to its end, unless it has come there, and see what is of it."""
    ended = _search(folder, python)
    assert ended.status == 0, f"{what}: {ended.said[-3000:]}"
    differences = list(_differ(undisturbed(python, ranks), end(folder), "end"))
    assert differences == [], f"{what}: {differences}"
    until = time.monotonic() + 30
    while (left := _processes(folder)) and time.monotonic() < until:
        time.sleep(0.2)
    assert left == {}, f"{what} left {left}"


def write(folder: Path, ranks: int = 1, **keys: Any) -> None:
    """Write a project with a search of a few trials, whose config has these ``keys``, too."""
    project.write(folder, "sized", ranks=ranks)
    config: dict[str, Any] = json.loads((folder / "const.yaml").read_text())
    config["searcher"].update(name="random", max_trials=TRIALS)
    config.update({"max_restarts": 3, **keys})
    (folder / "search.yaml").write_text(json.dumps(config))


@functools.cache
def undisturbed(python: str, ranks: int = 1) -> Any:
    """The end of a search that nothing happens to."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder, "run"), ranks)
        ended = _search(Path(folder, "run"), python)
        assert ended.status == 0, ended.said
        return end(Path(folder, "run"))


def end(folder: Path) -> dict[str, Any]:
    """What has come of each trial, to the bits of its best checkpoint."""
    found = {}
    results = json.loads((folder / "out" / "results.json").read_text())
    for one in sorted(results, key=lambda one: one["trial"]):
        base, _, uuid = one["checkpoint"].rpartition("/")
        state = read_checkpoint(CheckpointStore(base).find(uuid)).state
        plain = {name: one[name] for name in ("status", "batches", "metric", "metric_batches")}
        found[f"trial {one['trial']}"] = {**plain, **{name: state[name] for name in _STATES}}
    assert len(found) == TRIALS, found.keys()
    return found


def _started(
    folder: Path, python: str
) -> contextlib.AbstractContextManager[subprocess.Popen[bytes]]:
    resume = ["--resume"] if (folder / "out" / "search.json").exists() else []
    words = ["search", "search.yaml", "--run-dir", "out", *resume]
    return started(folder, python, *words, ATTACK_SECONDS="0.05")


def _search(folder: Path, python: str) -> Ended:
    """A search, or what is left of it, to its end."""
    with _started(folder, python) as process:
        _wait(process)
    return Ended(process.returncode, (folder / "log.txt").read_text("utf-8", errors="replace"))


def _wait(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_SECONDS)


def _processes(folder: Path) -> dict[int, str]:
    """The command lines of the processes of a search: they have inherited a variable of it."""
    found = {}
    for number in processes_with(f"ATTACK_STARTED={folder / 'started'}"):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{number}/cmdline").read_bytes().replace(b"\0", b" ")
            found[number] = words.decode(errors="replace")
    return found


def _depth(number: int, alike: list[int], running: dict[int, str]) -> int:
    """How many processes there are above one that is forked, among those of ``_FORKED``."""
    above = parent_of(number)
    if above in alike:
        return min(_depth(above, alike, running) + 1, len(_FORKED) - 1)
    return 0 if "forks.template" in running[number] else 1


def _kill(draw: Random, folder: Path, who: str) -> int | None:
    """Kill a process of the search; returns its id, None if there is none of that kind."""
    running = _processes(folder)
    alike = sorted(number for number, words in running.items() if _WHO[who] in words)
    if who in _FORKED:
        alike = [it for it in alike if _FORKED[_depth(it, alike, running)] == who]
    if not alike:
        return None
    chosen = draw.choice(alike)
    with contextlib.suppress(ProcessLookupError):
        os.kill(chosen, signal.SIGKILL)
    return chosen

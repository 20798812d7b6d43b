"""A search that trains, from the command line: killed, and gone on with."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fresh_python import environment
from tests.preloaded import executable
from tests.search.objectives import read_json
from tests.search.tiny import write_project

pytest.importorskip("ray", reason="needs det-compat[search]")

pytestmark = pytest.mark.xdist_group("search commands")


# This is `python -m det_compat`, which first says who is to be killed.
COMMAND = """
import os, runpy
os.write(1, b"%d\\n" % os.getpid())
runpy.run_module("det_compat", run_name="__main__", alter_sys=True)
"""


class Searching:
    """A search from the command line, in a session of its own; ``pid`` is its leader's.

    It has these environment variables, too.
    """

    def __init__(self, config: Path, run_dir: Path, *options: str, **variables: str) -> None:
        command = [executable(), "-c", COMMAND, "search", str(config)]
        self._program = subprocess.Popen(
            [*command, "--run-dir", str(run_dir), *options],
            cwd=config.parent.parent,
            env={**environment(), **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self._program.stdout is not None
        self.pid = int(self._program.stdout.readline())

    def output(self, seconds: float = 60) -> str:
        """What it has printed, at its end."""
        return self._program.communicate(timeout=seconds)[0]

    @property
    def status(self) -> int | None:
        """Its exit status, once it has ended."""
        return self._program.poll()


def wait_for(condition: Callable[[], bool], searching: Searching) -> None:
    for _ in range(900):
        if condition():
            return
        assert searching.status is None, searching.output()
        time.sleep(0.1)
    raise AssertionError("waited for 90 seconds")


def a_trial_and_a_half(run_dir: Path) -> bool:
    """Whether one trial has ended and another has reported."""
    ended = {file.parent for file in run_dir.glob("trials/*/end.json")}
    reported = {file.parent for file in run_dir.glob("trials/*/reports.jsonl")}
    return bool(ended and reported - ended)


class Runs:
    """What runs a command when it is unpickled."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (self.command,)


def plant(tune: Path, command: str) -> None:
    """Put pickles that run a command in place of Tune's own."""
    data = pickle.dumps(Runs(command))
    for file in [*tune.rglob("*.pkl"), tune / "search_gen_state-9999.pkl"]:
        file.write_bytes(data)
    for folder in tune.glob("trial_*/"):
        (folder / "error.pkl").write_bytes(data)
    state = {"_type": "CLOUDPICKLE_FALLBACK", "value": data.hex()}
    (tune / "experiment_state-9999-12-31_23-59-59.json").write_text(json.dumps(state))


def test_killed_and_resumed(tmp_path: Path) -> None:
    config, run_dir = write_project(tmp_path / "project", trials=3, seconds=0.1), tmp_path / "run"
    searching = Searching(config, run_dir)
    wait_for(lambda: a_trial_and_a_half(run_dir), searching)
    os.kill(searching.pid, signal.SIGKILL)
    searching.output()
    assert searching.status == -signal.SIGKILL
    assert with_secrets(run_dir) == []
    ended = {file: file.stat().st_mtime_ns for file in run_dir.glob("trials/*/end.json")}
    assert ended
    half = {
        file: len(file.read_text().splitlines()) for file in run_dir.glob("trials/*/reports.jsonl")
    }

    plant(run_dir / "tune", f"touch {tmp_path / 'executed'}")
    output = Searching(config, run_dir, "--resume").output(120)
    assert not (tmp_path / "executed").exists()
    found = read_json(run_dir)
    assert [result["status"] for result in found] == ["completed"] * 3, output
    assert [result["batches"] for result in found] == [32] * 3
    assert all(Path(result["checkpoint"]).is_dir() for result in found)
    # what had ended is as it was; what had not went on after its last report
    assert {file: file.stat().st_mtime_ns for file in ended} == ended
    for file, lines in half.items():
        batches = [json.loads(line)["batches"] for line in file.read_text().splitlines()]
        assert len(batches) >= lines
        assert batches == sorted(set(batches))
    assert "best: trial" in output
    assert "det-compat checkpoint export" in output
    compared = Path(output.partition("tensorboard --logdir ")[2].splitlines()[0])
    events = [file.read_bytes() for file in compared.rglob("*tfevents*")]
    assert sum(b"_hparams_/experiment" in event for event in events) >= 3
    assert with_secrets(run_dir) == []


def test_interrupted_twice(tmp_path: Path) -> None:
    config, run_dir = write_project(tmp_path / "project", trials=2, seconds=0.3), tmp_path / "run"
    searching = Searching(config, run_dir)
    wait_for(lambda: any(run_dir.glob("trials/*/reports.jsonl")), searching)
    # Ctrl-C reaches all processes of the terminal
    for _ in range(2):
        os.killpg(searching.pid, signal.SIGINT)
        time.sleep(0.3)
    output = searching.output()
    assert searching.status == 130, output
    assert "Traceback" not in output
    assert f"--run-dir {run_dir} --resume" in output
    assert "unfinished" in {result["status"] for result in read_json(run_dir)}


@pytest.mark.thorough
def test_terminated_with_a_long_path_for_temporary_files(tmp_path: Path) -> None:
    config, run_dir = write_project(tmp_path / "project", trials=2, seconds=0.3), tmp_path / "run"
    temporary = tmp_path / ("longer than the address of a socket " * 4)
    temporary.mkdir()
    searching = Searching(config, run_dir, TMPDIR=str(temporary))
    wait_for(lambda: any(run_dir.glob("trials/*/reports.jsonl")), searching)
    # The other one does not end when it is asked to, which made each search a second longer.
    assert "autoscaler/v2/monitor.py" in _children(searching.pid)
    # `timeout` and schedulers send it to all processes of the group
    os.killpg(searching.pid, signal.SIGTERM)
    output = searching.output()
    assert searching.status == 143, output
    assert output.count(f"--run-dir {run_dir} --resume") == 1
    assert "Traceback" not in output
    assert "***" not in output
    assert "unfinished" in {result["status"] for result in read_json(run_dir)}


def _children(pid: int) -> str:
    """The command lines of the processes that a process has started."""
    files = Path(f"/proc/{pid}/task").glob("*/children")
    numbers = [number for file in files for number in file.read_text().split()]
    return "\n".join(Path(f"/proc/{number}/cmdline").read_text() for number in numbers)


def with_secrets(run_dir: Path) -> list[str]:
    """The files with secrets in them; a process that is ending may still take some away."""
    found = []
    for folder, _, names in os.walk(run_dir):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                found += [name] if _has_secret(Path(folder, name)) else []
    return found


def _has_secret(file: Path) -> bool:
    if not file.is_file() or "code" in file.parts:
        # the sources in a checkpoint are the user's own files, of which the config is one
        return False
    # a trial that is loaded or goes on gets the hyperparameters that it was trained with
    is_for_the_trial = file.name in ("trial.json", "load_data.json")
    content = file.read_bytes()
    return b"SECRET-TEXT" in content or (b"SECRET-HPARAM" in content and not is_for_the_trial)

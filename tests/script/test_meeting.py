"""Processes that are started one by one, of which one ends before they have met."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest

from det_compat.script import meeting
from tests.fresh_python import ROOT
from tests.torchrun import free_port

SECONDS = 30.0
TASK = """
import sys, time
from det_compat.script import meeting
meeting._SECONDS = 0.3
meeting._SECONDS_BETWEEN_TRIES, meeting._PATIENCE = 0.05, 1.0
def command():
    {body}
print("ends with", status := meeting.until_met(command), flush=True)
sys.exit(status)
"""
# As long as the test does not close its standard input; once the other one is there.
WAITS = """while not meeting._lifeline.met: time.sleep(0.01)
    print("here", flush=True)
    return int(sys.stdin.readline() or 3)"""


def slurm() -> dict[str, Any]:
    return {
        "SLURM_JOB_ID": free_port(),
        "SLURM_JOB_NAME": "job.sh",
        "SLURM_JOB_NODELIST": "127.0.0.1,127.0.0.2",
        "SLURM_NNODES": 2,
        "SLURM_NTASKS": 2,
        "SLURM_LOCALID": 0,
    }


def by_hand() -> dict[str, Any]:
    return {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port()}


Start = Callable[[], dict[str, Any]]


@pytest.fixture
def started() -> Any:
    """Starts a process of a start."""
    tasks: list[subprocess.Popen[str]] = []

    def start(job: dict[str, Any], rank: int, body: str = WAITS) -> subprocess.Popen[str]:
        own = {"SLURM_PROCID": rank, "SLURM_NODEID": rank} if "SLURM_JOB_ID" in job else {}
        names = {**job, **own, "NODE_RANK": rank}
        task = subprocess.Popen(
            [sys.executable, "-c", TASK.format(body=body)],
            cwd=ROOT,
            env={**os.environ, **{name: str(value) for name, value in names.items()}},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        tasks.append(task)
        return task

    yield start
    for task in tasks:
        task.kill()
        task.communicate()


def two(started: Any, start: Start) -> list[subprocess.Popen[str]]:
    """Two processes that know of each other."""
    job = start()
    tasks = [started(job, rank) for rank in range(2)]
    assert [task.stdout.readline() for task in tasks] == ["here\n"] * 2
    return tasks


@pytest.mark.parametrize("lost", [0, 1])
@pytest.mark.parametrize(
    ("start", "name"),
    [(slurm, "rank {}, on 127.0.0.{},"), (by_hand, "the process of NODE_RANK={}")],
)
def test_the_one_that_is_left_ends_and_says_why(
    start: Start, name: str, lost: int, started: Any
) -> None:
    tasks = two(started, start)
    tasks[lost].kill()
    left = tasks[1 - lost]
    assert left.wait(SECONDS) == 1
    said = left.stdout.read()
    assert said.startswith(f"det-compat: {name.format(lost, lost + 1)} has ended before training")
    assert said.endswith("Start all again\n")


def test_one_that_ends_well_is_not_missed(started: Any) -> None:
    first, second = two(started, slurm)
    second.communicate("0\n", SECONDS)
    time.sleep(0.6)
    said, _ = first.communicate("0\n", SECONDS)
    assert (first.returncode, said) == (0, "ends with 0\n")


@pytest.mark.parametrize("late", [0, 1])
def test_one_that_fails_at_once_is_heard_of(late: int, started: Any) -> None:
    job = slurm()
    failed = started(job, 1 - late, "raise ValueError('own')")
    time.sleep(0.5)
    left = started(job, late)
    assert left.wait(SECONDS) == 1 and failed.wait(SECONDS) == 1
    assert "has ended before training has begun" in left.stdout.read()
    assert "ValueError: own" in failed.stdout.read()


def test_those_that_have_met_do_not_end_each_other(started: Any) -> None:
    job = slurm()
    met = WAITS.replace("    return", "    meeting.have_met()\n    return")
    tasks = [started(job, rank, met) for rank in range(2)]
    assert [task.stdout.readline() for task in tasks] == ["here\n"] * 2
    tasks[1].kill()
    tasks[1].wait()
    time.sleep(0.6)
    said, _ = tasks[0].communicate("0\n", SECONDS)
    assert (tasks[0].returncode, said) == (0, "ends with 0\n")


def test_a_process_that_is_alone_or_torchruns_waits_for_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("SLURM_NTASKS", "NODE_RANK"):
        monkeypatch.delenv(name, raising=False)
    assert meeting._place() is None
    monkeypatch.setenv("NODE_RANK", "1")
    monkeypatch.setenv("MASTER_PORT", "29500")
    assert meeting._place() is not None
    monkeypatch.setenv("LOCAL_RANK", "1")
    assert meeting._place() is None


def test_who_does_not_come_is_named(started: Any) -> None:
    job = {**slurm(), "SLURM_NTASKS": 3}
    first = started(job, 0, "return int(sys.stdin.readline() or 3)")
    second = started(job, 1)
    assert second.stdout.readline() == "here\n"
    assert first.stdout.readline().startswith("after 1 seconds rank 2 is not there")


def test_rank_0_is_named_where_it_does_not_come(started: Any) -> None:
    second = started(slurm(), 1, "return int(sys.stdin.readline() or 3)")
    assert second.stdout.readline().startswith("after 1 seconds rank 0 is not there")

"""Kills a process again and again while it writes and deletes checkpoints, and looks at the rest.

Run as ``python -m tests.core.killed_writer BASE KILLS``. It prints how many checkpoints were
written and how many left unfinished.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time
from pathlib import Path

import torch

from det_compat.core import CheckpointStore
from det_compat.core.retention import RetainedCheckpoints, RetentionPolicy
from det_compat.errors import UnfinishedCheckpointError
from tests.core import disk_filesystem

FILES = 3
VALUES = 200_000


def write(base: str, report: int) -> None:
    """Go on from the latest checkpoint and write one after another, for ever."""
    context = CheckpointStore(base)
    retained = RetainedCheckpoints(context.delete, RetentionPolicy(0, 0, 2))
    steps = 0
    if latest := context.latest():
        steps = latest.metadata["steps_completed"]
        retained.load_state_dict(latest.metadata["retention"])
        retained.saved(latest.uuid, steps)
    while True:
        steps += 1
        metadata = {"steps_completed": steps, "retention": retained.state_dict()}
        with context.store_path(metadata) as (path, name):
            for number in range(FILES):
                torch.save(torch.full((VALUES,), float(steps)), path / f"{number}.pt")
        os.write(report, f"{steps} ".encode())
        retained.saved(name, steps)


def write_and_be_killed(base: str, seconds: float) -> int:
    """The last checkpoint that a process reported which is killed after its first, and so long."""
    reports, report = os.pipe()
    child = os.fork()
    if child == 0:
        write(base, report)
    os.close(report)
    received = os.read(reports, 100)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while more := os.read(reports, 10_000):
        received += more
    os.close(reports)
    return int(received.split()[-1])


def check(base: str, last: int) -> int:
    """How many checkpoints are unfinished; all others must be whole, ``last`` among the latest."""
    context = CheckpointStore(base)
    complete = context.list()
    assert complete[-1].steps_completed in (last, last + 1)
    assert len(complete) <= 3, complete
    for one in complete:
        for number in range(FILES):
            values = torch.load(context.find(one.uuid) / f"{number}.pt")
            assert values.shape == (VALUES,) and (values == one.steps_completed).all()
    directory = Path(base.removeprefix("disk://"))
    others = set(os.listdir(directory)) - {one.uuid for one in complete}
    for name in others:
        is_refused(context, name)
        if str(directory) == base:
            is_refused(context, str(directory / name))
    return len(others)


def is_refused(context: CheckpointStore, name: str) -> None:
    try:
        found = context.find(name)
    except UnfinishedCheckpointError:
        return
    raise AssertionError(f"{found} is unfinished, and was found")


def main(base: str, kills: str) -> None:
    disk_filesystem.register()
    rng = random.Random(0)
    for _ in range(int(kills)):
        last = write_and_be_killed(base, rng.random() * 0.1)
        unfinished = check(base, last)
    print(f"{last} checkpoints, {unfinished} unfinished")


if __name__ == "__main__":
    main(*sys.argv[1:])

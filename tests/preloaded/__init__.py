"""Runs Python commands in forks of a process that has imported torch and Lightning.

An interpreter needs five seconds to import them, and works for a fraction of one. The program
that ``executable()`` names takes the arguments of ``python``; a server forks for each command, and
the program passes on the signals that it gets and the fork's exit status. What such a process
starts with its own ``sys.executable`` (torchrun's ranks, say) is forked, too; so is what
multiprocessing spawns for a test with the fixture ``spawned_by_fork``.

A fork is as a fresh interpreter but for the modules that are imported already, so tests of what an
import does use ``tests.fresh_python``. A command with options or variables that are only read when
Python starts gets an interpreter of its own.
"""

from __future__ import annotations

import fcntl
import functools
import gc
import importlib.metadata
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fresh_python import ROOT, environment

_SECONDS = 240


def spare_the_machine() -> None:
    """Have this process, and its forks, leave out what takes time and no test looks at.

    Nothing cuts the power, so nothing has to wait for the disk: runs with many checkpoints did for
    a quarter of their time. tests/shared/test_durable_files.py looks at the calls. Lightning 2.6.6
    reads the entry points of every installed package for each Trainer; they stay what they are.
    Cycles are looked for less often, among a million objects that stay.
    """
    gc.set_threshold(100_000, 20, 50)
    os.fsync = lambda descriptor: None
    importlib.metadata.entry_points = functools.cache(importlib.metadata.entry_points)


def executable(side: str = "det_compat") -> str:
    """A program to be used as ``sys.executable`` is; the server is started when it is needed.

    ``side`` is "det_compat", "determined" for scripts that are given to Determined itself, or
    "neither" for what imports one of them to look at how that goes, with torch there already.
    """
    # All of pytest-xdist's workers share the server, which ends with the process they belong to.
    owner = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()
    folder = Path(tempfile.gettempdir(), f"det-compat-tests-{os.getuid()}-{owner}")
    folder.mkdir(mode=0o700, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / side).exists():
            _start(folder, owner)
    return str(folder / side)


def python(
    *args: str, cwd: Path, side: str = "det_compat", hidden_by: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run Python and return what it said, as ``tests.fresh_python.python`` does."""
    return subprocess.run(
        [executable(side), *args],
        cwd=cwd,
        env=environment(hidden_by),
        capture_output=True,
        text=True,
        timeout=_SECONDS,
        check=False,
    )


def _start(folder: Path, owner: int) -> None:
    with (folder / "log.txt").open("w") as log:
        subprocess.run(
            [sys.executable, "-m", "tests.preloaded.server", str(folder), str(owner)],
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            check=True,
        )

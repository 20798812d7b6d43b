"""Runs a script of the tests on two ranks, as torchrun does."""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import os
import random
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.preloaded import executable

ROOT = Path(__file__).parents[1]
SECONDS = 240
SECONDS_PER_SCENARIO = 60

Scenario = Callable[[Path], Any]


def on_two_ranks(
    script: Path, tmp_path_factory: pytest.TempPathFactory, *args: str
) -> list[dict[str, Any]]:
    """What each rank of ``script OUT ARGS...`` found: see ``find``.

    It is run once in a test session, whichever of pytest-xdist's workers asks first.
    """
    session = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        session = session.parent
    out = session / f"{script.parent.name}-{script.stem}"
    with (session / f"{out.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not out.exists():
            out.mkdir()
            _launch(script, out, args)
    log = (out / "log.txt").read_text()
    assert all((out / f"{rank}.pt").exists() for rank in range(2)), log[-5000:]
    return [torch.load(out / f"{rank}.pt", weights_only=False) for rank in range(2)]


def _launch(script: Path, out: Path, args: Sequence[str]) -> None:
    torchrun = [executable(), "-m", "torch.distributed.run", "--nproc_per_node", "2"]
    env = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "XDG_DATA_HOME": str(out / "home"),
    }
    with (out / "log.txt").open("w") as log:
        subprocess.run(
            [*torchrun, "--master_port", str(free_port()), str(script), str(out), *args],
            cwd=out,
            env=env,
            stdout=log,
            stderr=subprocess.STDOUT,
            timeout=SECONDS,
            check=False,
        )


def free_port() -> int:
    """A port that nobody has, below those that Linux gives connections of other tests meanwhile."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as sock, contextlib.suppress(OSError):
            sock.bind(("", port))
            return port


def find(scenarios: dict[str, Scenario]) -> None:
    """In the script: run each scenario and save what it returns, or the exception, by its name."""
    out = Path(sys.argv[1])
    found = {name: _outcome(scenario, out) for name, scenario in scenarios.items()}
    torch.save(found, out / f"{os.environ['RANK']}.pt")


def _outcome(scenario: Scenario, out: Path) -> Any:
    # ranks that wait for each other forever are ended, and say where
    faulthandler.dump_traceback_later(SECONDS_PER_SCENARIO, exit=True)
    try:
        return scenario(out)
    except BaseException as error:  # some are SystemExit, Determined's are no Exceptions
        return f"{type(error).__name__}: {error}"
    finally:
        faulthandler.cancel_dump_traceback_later()

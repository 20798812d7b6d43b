"""A command of det_compat that an attack starts, and that has ended when the attack goes on."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]


@contextlib.contextmanager
def started(
    folder: Path, python: str, *words: str, **variables: str
) -> Iterator[subprocess.Popen[bytes]]:
    """The process of ``det-compat WORDS`` in ``folder``, where ``log.txt`` gets what it says."""
    ours = {"PYTHONPATH": str(ROOT), "ATTACK_STARTED": str(folder / "started")}
    with (folder / "log.txt").open("w") as log:
        process = subprocess.Popen(
            [python, "-m", "det_compat", *words],
            cwd=folder,
            env={**os.environ, **ours, **variables},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()

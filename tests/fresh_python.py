"""Fresh interpreters for what can only be tried once a process, with or without Determined."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]

# This makes a process find what it would where Determined is not installed.
HIDE_DETERMINED = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "determined":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
"""


def environment(hidden_by: Path | None = None) -> dict[str, str]:
    """Variables under which det_compat is found; ``hidden_by`` gets what hides determined."""
    paths = [str(ROOT)]
    if hidden_by is not None:
        hidden_by.mkdir(exist_ok=True)
        (hidden_by / "sitecustomize.py").write_text(HIDE_DETERMINED)
        paths.insert(0, str(hidden_by))
    given = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return {**given, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}


def python(
    *args: str, cwd: Path, hidden_by: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run this interpreter afresh and return what it said."""
    return subprocess.run(
        [sys.executable, *args],
        cwd=cwd,
        env=environment(hidden_by),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def det_compat_run(
    *args: str, cwd: Path, hidden_by: Path | None = None, options: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """``det-compat run ARGS`` in a fresh interpreter that was given ``options``."""
    return python(*options, "-m", "det_compat", "run", *args, cwd=cwd, hidden_by=hidden_by)

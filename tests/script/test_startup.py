"""Pythons that a command starts, which find det_compat as ``determined`` by their environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from det_compat.script.command import aliasing_variables

PROGRAM = """
import determined, sys
print(determined.__file__.endswith("det_compat/__init__.py"), sorted(sys.argv[1:]))
"""


def run(command: list[str], folder: Path, **own: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **own}
    environment.update(aliasing_variables(environment))
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60
    )


def test_what_a_shell_starts_finds_det_compat(tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "sitecustomize.py").write_text("print('the hidden one')")
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "train.sh").write_text("cd own && python3 -u ../program.py a b\n")
    done = run(["sh", "train.sh"], tmp_path, PYTHONPATH=str(tmp_path / "own"))
    assert done.stdout == "the hidden one\nTrue ['a', 'b']\n", done.stderr
    assert done.stderr == ""


def test_a_python_without_det_compat_says_so(tmp_path: Path) -> None:
    startup = Path(aliasing_variables({})["PYTHONPATH"])
    # It is copied out of the checkout, and -S leaves out the packages of this Python.
    (tmp_path / "sitecustomize.py").write_text((startup / "sitecustomize.py").read_text())
    program = "import sitecustomize; print('goes on')"
    done = subprocess.run(
        [sys.executable, "-S", "-c", program], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.stdout == "goes on\n" and "has no det_compat" in done.stderr

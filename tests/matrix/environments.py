"""Environments with the lowest and the newest torch that pyproject.toml allows."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENDS = ("lowest", "newest")


def lowest_torch() -> str:
    """The version that pyproject.toml names, to the third number."""
    [version] = re.findall(r'"torch>=([\d.]+)"', (ROOT / "pyproject.toml").read_text())
    return version if version.count(".") > 1 else f"{version}.0"


def requirement(end: str) -> str:
    return f"torch=={lowest_torch()}" if end == "lowest" else "torch"


def constraints() -> str:
    """What CI pins, but for torch."""
    lines = (ROOT / "constraints.txt").read_text().splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("torch=="))


def build(end: str, folder: Path, python: str) -> str:
    """The Python of an environment for ``end``, which is built where it is not there.

    A file says that it is whole: one whose installation was interrupted is built again.
    """
    inside = folder / "bin" / "python"
    done = folder / "built-with.txt"
    pins = folder.parent / f"{end}-constraints.txt"
    wanted = f"{requirement(end)}\n{constraints()}{(ROOT / 'pyproject.toml').read_text()}"
    if not (done.exists() and done.read_text() == wanted):
        folder.parent.mkdir(parents=True, exist_ok=True)
        pins.write_text(constraints())
        subprocess.run([python, "-m", "venv", "--clear", str(folder)], check=True)
        install = [str(inside), "-m", "pip", "install", "--constraint", str(pins)]
        subprocess.run([*install, requirement(end), "--editable", f"{ROOT}[dev]"], check=True)
        done.write_text(wanted)
    return str(inside)

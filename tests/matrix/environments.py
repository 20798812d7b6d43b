"""Environments with the lowest and the newest versions that pyproject.toml allows."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
ENDS = ("lowest", "newest")


def lowest() -> dict[str, str]:
    """The lowest version of each package for which pyproject.toml names one."""
    asked = re.findall(
        r'"([\w-]+)(?:\[[\w,]+\])?>=([\d.]+)"', (ROOT / "pyproject.toml").read_text()
    )
    return {name.lower(): version for name, version in asked if name != "setuptools"}


def requirement(end: str) -> str:
    return f"torch=={lowest()['torch']}" if end == "lowest" else "torch"


def constraints(end: str) -> str:
    """What CI pins, but for torch, and for what is to have the lowest version."""
    pinned = lowest() if end == "lowest" else {}
    # CI's mypy needs a later pathspec than det_compat does, and no test needs mypy.
    free = {"torch", *pinned, *(["mypy"] if pinned else [])}
    # What the lowest matplotlib and libcst were made with: newer ones deprecate what those call.
    then = ["pyparsing<3.3", "mypy-extensions<1.1"] if pinned else []
    left = [
        line
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if line.partition("==")[0].lower() not in free
    ]
    pins = [f"{name}=={version}" for name, version in pinned.items()]
    return "\n".join([*left, *then, *pins, ""])


def build(end: str, folder: Path, python: str) -> str:
    """The Python of an environment for ``end``, which is built where it is not there.

    A file says that it is whole: one whose installation was interrupted is built again.
    """
    inside = folder / "bin" / "python"
    done = folder / "built-with.txt"
    pins = folder.parent / f"{end}-constraints.txt"
    wanted = f"{requirement(end)}\n{constraints(end)}{(ROOT / 'pyproject.toml').read_text()}"
    if not (done.exists() and done.read_text() == wanted):
        folder.parent.mkdir(parents=True, exist_ok=True)
        pins.write_text(constraints(end))
        subprocess.run([python, "-m", "venv", "--clear", str(folder)], check=True)
        install = [str(inside), "-m", "pip", "install", "--constraint", str(pins)]
        subprocess.run([*install, requirement(end), "--editable", f"{ROOT}[dev]"], check=True)
        done.write_text(wanted)
    return str(inside)

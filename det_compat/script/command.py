"""Command lines that start Python, as they are for a script that is to find det_compat."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

#: The word in a command that starts Python.
PYTHON = re.compile(r"(?:.*/)?python[0-9.]*")
_STARTUP = Path(__file__).with_name("startup")
# The options of python that take the next word.
_WITH_VALUE = ("-W", "-X")


def under_det_compat(argv: Sequence[str]) -> list[str]:
    """The command that runs a script or module of Python as ``det-compat run`` does.

    Any other command is left as it is; see ``aliasing_variables``.
    """
    if not argv or not PYTHON.fullmatch(argv[0]):
        return list(argv)
    options, rest = _python_options(argv[1:])
    if not rest or rest[0] == "-c":
        return [sys.executable, *argv[1:]]
    return [sys.executable, *options, "-m", "det_compat", "run", *rest]


def aliasing_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Variables by which every Python that a command starts finds det_compat as ``determined``.

    They reach those that shells and launchers start, and ``python -c``; not those with ``-E``,
    ``-I`` or ``-S``. A ``python`` that is named without a path is the one that runs this.

    Args:
        environment: the variables that the command has otherwise.
    """
    first = {"PYTHONPATH": str(_STARTUP), "PATH": os.path.dirname(sys.executable)}
    return {
        name: os.pathsep.join(filter(None, [path, environment.get(name)]))
        for name, path in first.items()
    }


def _python_options(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """The options for ``python`` itself, and what follows, from ``-m`` or the script on."""
    at = 0
    while at < len(argv) and argv[at].startswith("-") and argv[at] not in ("-m", "-c"):
        at += 2 if argv[at] in _WITH_VALUE else 1
    return list(argv[:at]), list(argv[at:])

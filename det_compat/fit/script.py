"""Entrypoints that are commands: the command line, with ``determined`` found in det_compat."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence

from det_compat.config.entrypoint import Entrypoint
from det_compat.fit.errors import FitError

_PYTHON = re.compile(r"(?:.*/)?python[0-9.]*")
_TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
_LAUNCHERS = ("torch_distributed", "horovod", "autohorovod")
# options of python that take the next word
_WITH_VALUE = ("-W", "-X")


def script_command(entrypoint: Entrypoint, slots: int) -> list[str]:
    """The command that runs a script entrypoint on ``slots`` processes of this machine.

    A script of Python runs under ``det-compat run``; any other command runs as it is.

    Raises:
        FitError: the launcher is not supported.
    """
    command = _under_det_compat(entrypoint.argv)
    if entrypoint.launcher is None:
        return command
    if entrypoint.launcher not in _LAUNCHERS:
        raise FitError(
            f"entrypoint: the launcher {entrypoint.launcher} is not supported; "
            "determined.launch.torch_distributed is"
        )
    processes = [] if _says_processes(entrypoint.launcher_args) else [f"--nproc_per_node={slots}"]
    own_args = entrypoint.launcher_args if entrypoint.launcher == "torch_distributed" else ()
    return [*_TORCHRUN, *processes, *own_args, "--no-python", *command]


def runs_det_compat(command: Sequence[str]) -> bool:
    """Whether a command of ``script_command`` starts a script of Python under det_compat."""
    return "det_compat" in command


def _says_processes(args: Sequence[str]) -> bool:
    return any(arg.replace("-", "_").startswith("__nproc_per_node") for arg in args)


def _under_det_compat(argv: Sequence[str]) -> list[str]:
    if not argv or not _PYTHON.fullmatch(argv[0]):
        return list(argv)
    options, rest = _python_options(argv[1:])
    if not rest or rest[0] == "-c":
        return [sys.executable, *argv[1:]]
    return [sys.executable, *options, "-m", "det_compat", "run", *rest]


def _python_options(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """The options for ``python`` itself, and what follows, from ``-m`` or the script on."""
    at = 0
    while at < len(argv) and argv[at].startswith("-") and argv[at] not in ("-m", "-c"):
        at += 2 if argv[at] in _WITH_VALUE else 1
    return list(argv[:at]), list(argv[at:])

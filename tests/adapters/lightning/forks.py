"""Runs Python commands in forks of a process that has imported modules of one's choice."""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import subprocess
import sys
import traceback
from pathlib import Path

from tests.preloaded import server, spare_the_machine


class Forks:
    """A process that runs ``python ARGS`` and says how it ended."""

    def __init__(self, environment: dict[str, str], modules: tuple[str, ...]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__)), *modules],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, argv: list[str], folder: Path, output: Path, environment: dict[str, str]) -> int:
        """Run ``python ARGV`` in a folder, and return its exit status.

        What it prints goes to the file ``output``.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = [argv, str(folder), str(output), environment]
        print(json.dumps(request), file=self._process.stdin, flush=True)
        return int(self._process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def _serve() -> None:
    spare_the_machine()
    for name in sys.argv[1:]:
        importlib.import_module(name)
    gc.freeze()
    # Each fork would count them.
    assert importlib.import_module("det_compat.shared.importing").something_is_frozen()
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            server.end(_outcome(*json.loads(line)))
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _outcome(argv: list[str], folder: str, output: str, environment: dict[str, str]) -> int:
    try:
        _run(argv, folder, output, environment)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _run(argv: list[str], folder: str, output: str, environment: dict[str, str]) -> None:
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    null = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((null, 0), (file, 1), (file, 2)):
        os.dup2(source, target)
    if argv[0] == "-m":
        sys.argv, sys.path[0] = argv[1:], folder
        runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv, sys.path[0] = argv, str(Path(folder, argv[0]).parent)
        runpy.run_path(argv[0], run_name="__main__")


if __name__ == "__main__":
    _serve()

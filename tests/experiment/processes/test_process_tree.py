"""Signals to commands that start others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from det_compat.experiment.processes.process_tree import send_signal

pytestmark = pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="there is no /proc")

HANDLES = """
import signal, sys
def ended(*_):
    print("handled")
    sys.exit(0)
signal.signal(signal.SIGTERM, ended)
print("ready", flush=True)
signal.pause()
"""
IGNORANT = "import signal; print('ready', flush=True); signal.pause()"


@pytest.mark.parametrize(
    ("program", "output", "status"),
    [(HANDLES, "handled\nthe shell goes on\n", 3), (IGNORANT, "", -signal.SIGTERM)],
)
def test_a_signal_reaches_what_a_shell_has_started(
    tmp_path: Path, program: str, output: str, status: int
) -> None:
    (tmp_path / "program.py").write_text(program)
    command = f"{sys.executable} -SE program.py; echo the shell goes on; exit 3"
    with subprocess.Popen(
        ["sh", "-c", command], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as shell:
        assert shell.stdout is not None
        assert shell.stdout.readline() == "ready\n"
        send_signal(shell.pid, signal.SIGTERM)
        # The program that handles nothing has ended too: its end of the pipe is closed.
        assert shell.stdout.read() == output
    assert shell.returncode == status

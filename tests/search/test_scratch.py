from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.fresh_python import environment
from tests.preloaded import executable

pytest.importorskip("ray", reason="needs det-compat[search]")

OF_A_TRIAL = """
import sys, tempfile, time
from det_compat.search.scratch import Scratch
tempfile.tempdir = sys.argv[1]
scratch = Scratch()
(scratch.path / "of a trial").mkdir()
print(scratch.path, flush=True)
time.sleep(60)
"""
OF_A_TEMPLATE = """
import os, sys, tempfile, time
from det_compat.search.forks.imports import Imports
from det_compat.search.forks.template import template
tempfile.tempdir = sys.argv[1]
with template(Imports(), os.environ) as address:
    print(os.path.dirname(address), flush=True)
    time.sleep(60)
"""


@pytest.mark.parametrize("program", [OF_A_TRIAL, OF_A_TEMPLATE], ids=["trial", "template"])
def test_it_goes_with_a_process_that_is_killed(program: str, tmp_path: Path) -> None:
    temporary = tmp_path / ("longer than the address of a socket " * 4)
    temporary.mkdir()
    process = subprocess.Popen(
        [executable(), "-c", program, str(temporary)],
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    folder = Path(process.stdout.readline().strip())
    assert folder.parent == temporary and folder.is_dir()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    until = time.monotonic() + 20
    while folder.exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not folder.exists()

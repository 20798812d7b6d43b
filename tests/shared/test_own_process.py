"""What det_compat does to a process that is its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fresh_python import environment

PROGRAM = """
import os, sys
from det_compat.shared.own_process import outlive_readers
if sys.argv[1] == "outlives":
    outlive_readers()
stream = getattr(sys, sys.argv[2])
print("first: \\u00e4", file=stream, flush=True)
sys.stdin.readline()
for number in range(10_000):
    print("more", number, file=stream)
os.system("echo from another process")
open("done", "w").close()
"""


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("kind", ["dies", "outlives"])
def test_who_reads_may_go(tmp_path: Path, kind: str, stream: str) -> None:
    reader, writer = os.pipe()
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, kind, stream],
        cwd=tmp_path,
        env={**environment(), "PYTHONIOENCODING": "utf-8"},
        stdin=subprocess.PIPE,
        stdout=writer,
        stderr=writer,
    ) as process:
        os.close(writer)
        assert os.read(reader, 100) == "first: ä\n".encode()
        os.close(reader)
        process.communicate(b"\n", timeout=60)
    assert ((process.returncode == 0), (tmp_path / "done").exists()) == (kind == "outlives",) * 2

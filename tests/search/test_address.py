"""A search on a Ray that runs already, as on a cluster."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fresh_python import environment
from tests.preloaded import executable
from tests.search.objectives import read_json
from tests.search.test_resume import Searching, wait_for
from tests.search.tiny import write_project

pytest.importorskip("ray", reason="needs det-compat[search]")

pytestmark = pytest.mark.xdist_group("search commands")


@pytest.fixture
def address(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Of a Ray with one core."""
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # a socket in it must not have a longer path than 107 characters
    folder = tempfile.mkdtemp(prefix="ray-")
    options = ["--head", "--block", "--num-cpus=1", "--include-dashboard=false"]
    options += [f"--port={port}", f"--temp-dir={folder}", "--disable-usage-stats"]
    process = subprocess.Popen(
        [executable(), "-m", "ray.scripts.scripts", "start", *options],
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert any("Ray runtime started" in line for line in process.stdout)
    yield f"127.0.0.1:{port}"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.thorough
def test_interrupted_and_resumed(address: str, tmp_path: Path) -> None:
    config, run_dir = write_project(tmp_path / "project", trials=2, seconds=0.1), tmp_path / "run"
    searching = Searching(config, run_dir, "--address", address)
    wait_for(lambda: any(run_dir.glob("trials/*/reports.jsonl")), searching)
    os.killpg(searching.pid, signal.SIGINT)
    output = searching.output()
    assert searching.status == 130, output
    assert f"--run-dir {run_dir} --address {address} --resume" in output
    assert "Traceback" not in output
    output = Searching(config, run_dir, "--address", address, "--resume").output(120)
    found = read_json(run_dir)
    assert [result["status"] for result in found] == ["completed"] * 2, output
    assert [result["batches"] for result in found] == [32] * 2


def test_nothing_is_there(tmp_path: Path) -> None:
    config = write_project(tmp_path / "project")
    searching = Searching(config, tmp_path / "run", "--address", "127.0.0.1:9")
    output = searching.output(120)
    assert searching.status == 2
    assert "cannot connect to a Ray cluster at 127.0.0.1:9" in output
    assert "ray status --address 127.0.0.1:9" in output
    assert "Traceback" not in output

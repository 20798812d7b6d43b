"""Several machines on this one: each has a folder, a home and an agent of torchrun of its own."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.torchrun import ROOT, free_port

SECONDS = 120


class Machine:
    """A machine of a launch; ``folder`` is where its agent was started, and ``log.txt`` there.

    Its processes are a session, as far as they are not forks of the preloaded Python.
    """

    def __init__(self, folder: Path, command: Sequence[str], variables: dict[str, str]) -> None:
        self.folder = folder
        self._log = (folder / "log.txt").open("w")
        home = folder / "home"
        home.mkdir(exist_ok=True)
        own = {"HOME": str(home), "XDG_DATA_HOME": str(home / "data"), "OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), **own, **variables},
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def said(self) -> str:
        return (self.folder / "log.txt").read_text("utf-8", errors="replace")

    def wait(self) -> int:
        try:
            return self.process.wait(SECONDS)
        finally:
            self.end()

    def end(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self._log.close()


def launched(
    folders: Sequence[Path],
    python: str,
    *program: str,
    processes: int = 1,
    restarts: int = 0,
    variables: dict[str, str] | None = None,
) -> list[Machine]:
    """``python PROGRAM...`` on ``processes`` ranks of a machine in each of ``folders``."""
    port = free_port()
    meeting = ["--rdzv_backend=c10d", f"--rdzv_endpoint=127.0.0.1:{port}", f"--rdzv_id={port}"]
    size = [f"--nnodes={len(folders)}", f"--nproc_per_node={processes}"]
    torchrun = [python, "-m", "torch.distributed.run", *size, *meeting]
    command = [*torchrun, f"--max-restarts={restarts}", "--no-python", python, *program]
    return [Machine(folder, command, variables or {}) for folder in folders]

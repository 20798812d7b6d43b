"""Several machines on this one: each has a folder, a home and an agent of torchrun of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.torchrun import ROOT, free_port

SECONDS = 120
_MARK = "DET_COMPAT_TEST_MACHINE"


def processes_with(variable: str) -> list[int]:
    """All processes that have inherited ``NAME=VALUE``, and all that these have started.

    Those of Ray write their titles over their variables.
    """
    found, parents = set(), {}
    for process in map(int, (it.name for it in Path("/proc").glob("[0-9]*"))):
        parents[process] = parent_of(process)
        with contextlib.suppress(OSError):
            if variable.encode() in Path(f"/proc/{process}/environ").read_bytes().split(b"\0"):
                found.add(process)
    while more := {it for it, parent in parents.items() if parent in found} - found:
        found |= more
    return sorted(found)


def parent_of(process: int) -> int:
    """The process that has started another one; 0 where that has ended."""
    with contextlib.suppress(OSError):
        return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def send(processes: Sequence[int], number: int) -> None:
    """Send a signal to those that are still there."""
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)


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
        own[_MARK] = str(folder)
        self.process = subprocess.Popen(
            command,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), **own, **variables},
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def pids(self) -> list[int]:
        """Its agent and all ranks."""
        return processes_with(f"{_MARK}={self.folder}")

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
    variables: dict[str, str] | list[dict[str, str]] | None = None,
    prefixes: Sequence[Sequence[str]] = (),
    addresses: Sequence[str] = (),
) -> list[Machine]:
    """``python PROGRAM...`` on ``processes`` ranks of a machine in each of ``folders``.

    ``variables`` are those of all, or of each, ``prefixes`` the words before the command of each,
    and ``addresses`` theirs, where each has a network device of its own.
    """
    port = free_port()
    first = addresses[0] if addresses else "127.0.0.1"
    meeting = ["--rdzv_backend=c10d", f"--rdzv_endpoint={first}:{port}", f"--rdzv_id={port}"]
    size = [f"--nnodes={len(folders)}", f"--nproc_per_node={processes}"]
    torchrun = [python, "-m", "torch.distributed.run", *size, *meeting]
    command = [f"--max-restarts={restarts}", "--no-python", python, *program]
    each = [variables or {}] * len(folders) if not isinstance(variables, list) else variables
    before = prefixes or [()] * len(folders)
    machines: list[Machine] = []
    for number, folder in enumerate(folders):
        own = [f"--rdzv_conf=is_host={int(number == 0)}"]
        own += [f"--local_addr={addresses[number]}"] if addresses else []
        machines.append(Machine(folder, [*before[number], *torchrun, *own, *command], each[number]))
    return machines

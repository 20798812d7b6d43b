"""A Ray cluster of several machines on this one, which have no disk in common where that can be.

Where this process may make mount namespaces, the machines but for the first one see nothing of the
folder ``private`` of the cluster. Each has a folder for temporary files of its own.
"""

from __future__ import annotations

import contextlib
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.fresh_python import environment
from tests.machines import processes_with, send
from tests.torchrun import free_port

_MARK = "DET_COMPAT_TEST_NODE"
_HIDDEN = 'mount -t tmpfs tmpfs "$1"; shift; exec "$@"'


def can_hide() -> bool:
    """Whether a machine can be made that does not see a folder."""
    tried = ["unshare", "--mount", "sh", "-c", "mount -t tmpfs tmpfs /mnt"]
    with contextlib.suppress(OSError):
        return subprocess.run(tried, capture_output=True, check=False).returncode == 0
    return False


class Node:
    """A machine of a cluster, with all of its processes."""

    def __init__(
        self, name: str, cluster: Cluster, *options: str, cores: int, variables: dict[str, str]
    ) -> None:
        self.temporary = cluster.folder / f"tmp-{name}"
        self.temporary.mkdir()
        self._mark = f"{_MARK}={self.temporary}"
        own = {_MARK: str(self.temporary), "TMPDIR": str(self.temporary)}
        start = [cluster.python, "-m", "ray.scripts.scripts", "start", "--block", *options]
        words = [*start, f"--num-cpus={cores}", "--disable-usage-stats", "--num-gpus=0"]
        if name != "head" and can_hide():
            hidden = str(cluster.private)
            words = ["unshare", "--mount", "sh", "-c", _HIDDEN, "sh", hidden, *words]
        with (cluster.folder / f"{name}.log").open("w") as log:
            self.process = subprocess.Popen(
                words,
                cwd=cluster.folder,
                env={**environment(), **cluster.variables, **own, **variables},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def pids(self) -> list[int]:
        """All of its processes."""
        return processes_with(self._mark)

    def send(self, number: int) -> None:
        """Send a signal to all of its processes."""
        send(self.pids(), number)

    def kill(self) -> None:
        """End the machine as a power failure does."""
        while self.pids():
            self.send(signal.SIGKILL)
            self.process.wait()
            time.sleep(0.1)

    def left(self) -> list[str]:
        """What is left in its folder for temporary files, but for the cache of torch."""
        names = (path.name for path in self.temporary.iterdir())
        return sorted(name for name in names if not name.startswith("torchinductor_"))


class Cluster:
    """Machines, of which the first one sees ``private``; none is there before ``add``."""

    def __init__(self, folder: Path, python: str) -> None:
        self.folder, self.python = folder, python
        self.private = folder / "private"
        self.private.mkdir(parents=True)
        self.address = f"127.0.0.1:{free_port()}"
        self.variables = {"RAY_AUTH_MODE": "disabled"}
        self.nodes: list[Node] = []
        # A socket in it must not have a longer path than 107 characters.
        self._session = tempfile.mkdtemp(prefix="ray-")

    def add(self, cores: int, **variables: str) -> Node:
        """A machine more, which has these variables, too; returns when it is there."""
        if not self.nodes:
            options = ["--head", f"--port={self.address.rpartition(':')[2]}"]
            options += ["--include-dashboard=false", f"--temp-dir={self._session}"]
            name = "head"
        else:
            options, name = [f"--address={self.address}"], f"node-{len(self.nodes)}"
        node = Node(name, self, *options, cores=cores, variables=variables)
        self.nodes.append(node)
        log = self.folder / f"{name}.log"
        until = time.monotonic() + 90
        while "Ray runtime started" not in log.read_text():
            assert node.process.poll() is None and time.monotonic() < until, log.read_text()
            time.sleep(0.1)
        return node

    def close(self) -> None:
        """End all machines."""
        for node in self.nodes[::-1]:
            node.kill()
        shutil.rmtree(self._session, ignore_errors=True)


@contextlib.contextmanager
def cluster(folder: Path, python: str, *cores: int) -> Iterator[Cluster]:
    """A cluster of machines with so many cores."""
    made = Cluster(folder, python)
    try:
        for count in cores:
            made.add(count)
        yield made
    finally:
        made.close()

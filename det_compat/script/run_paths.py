"""Where things are in the folder of a run."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

from det_compat.shared.durable_files import append_line

#: What a run has reported, one JSON object a line.
METRICS = "metrics.jsonl"
#: Where a run is sent to be looked at, and what of it was.
TRACKED = "tracking.json"
#: What the process that sends it has printed; whoever sends holds a lock on it.
TRACKING_LOG = "tracking.log"


class RunPaths:
    """A run's folder; ``path`` is absolute, since trials may change the working directory."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(os.path.abspath(Path(path).expanduser()))

    @property
    def checkpoints(self) -> Path:
        """Where checkpoints are, unless the config has a storage."""
        return self.path / "checkpoints"

    @property
    def tensorboard(self) -> Path:
        """Event files."""
        return self.path / "tensorboard"

    @property
    def checkpoint_names(self) -> Path:
        """The UUIDs of the checkpoints that this run has begun to write, one a line."""
        return self.path / "checkpoints.txt"

    @property
    def preempted(self) -> Path:
        """What is there once a script has acknowledged that it is to stop before its end."""
        return self.path / "preempted"

    def begin_process(self) -> None:
        """Note that this process of a script has begun, and is to end in good order."""
        # Where nothing can be written, nothing is known of processes, and the script goes on.
        with contextlib.suppress(OSError):
            self._process.touch()

    def end_process(self) -> None:
        """Note that this process of a script has ended in good order."""
        with contextlib.suppress(OSError):
            self._process.unlink()

    def processes(self) -> list[Path]:
        """What is there for each process that is going on, or has failed, or was killed."""
        return sorted(self.path.glob("process-*"))

    @property
    def _process(self) -> Path:
        return self.path / f"process-{socket.gethostname()}-{os.getpid()}"

    @property
    def _storage(self) -> Path:
        """The path or URL of the checkpoints of a script that has chosen it itself."""
        return self.path / "checkpoint_storage.txt"

    def begin_checkpoint(self, uuid: str) -> None:
        """Note that a checkpoint is begun."""
        self.path.mkdir(parents=True, exist_ok=True)
        append_line(self.checkpoint_names, uuid)

    def begun_checkpoints(self) -> list[str]:
        """The UUIDs of all checkpoints that were begun, in that order."""
        if not self.checkpoint_names.exists():
            return []
        names = self.checkpoint_names.read_text("utf-8", errors="replace").split()
        # A damaged list may hold anything.
        return [name for name in names if name.isprintable()]

    def note_storage(self, chosen: str | None) -> None:
        """Note the path or URL at which a script has its checkpoints; None for the config's."""
        if chosen is not None:
            self._storage.write_text(chosen, "utf-8")
        else:
            self._storage.unlink(missing_ok=True)

    def chosen_storage(self) -> str | None:
        """The path or URL at which the run's script had its checkpoints; None for the config's."""
        return self._storage.read_text("utf-8") if self._storage.exists() else None

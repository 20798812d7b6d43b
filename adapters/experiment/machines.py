"""Several machines that train one run: where they are, and which of them see its checkpoints."""

from __future__ import annotations

import atexit
import logging
import shutil
import socket
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from det_compat.adapters.lightning.package import pl
from det_compat.core import DistributedContext
from det_compat.core.store import CheckpointStore
from det_compat.script.machines import own_address

logger = logging.getLogger("det_compat")

_BLOCK = 1 << 24  # bytes of a file that go to other machines at once
# A checkpoint has the code for people to read; no run goes on from it.
_CODE = "code"


@dataclass(frozen=True)
class Machines:
    """The machines of a Trainer.

    Attributes:
        addresses: of each, by rank.
        host: the name of the first.
        blind: the names of those that do not see the checkpoints that the first one writes.
        is_blind: whether this one is among them.
    """

    addresses: list[str]
    host: str
    blind: list[str]
    is_blind: bool

    def warn(self, location: str) -> None:
        """Say what a loss of the first machine would cost."""
        logger.warning(
            f"checkpoints go to {location} on {self.host}, which {', '.join(self.blind)} cannot "
            f"see: they are lost with {self.host}, and no run can go on without it. Set "
            "checkpoint_storage to a directory that all machines share, or to an object store"
        )


def machines_of(trainer: pl.Trainer, checkpoints: CheckpointStore) -> Machines | None:
    """The machines of ``trainer``; None for a single one. All ranks have to ask."""
    if trainer.num_nodes < 2:
        return None
    host = socket.gethostname()
    sees = _sees(trainer, checkpoints)
    own = (own_address(), host, sees)
    processes = trainer.world_size // trainer.num_nodes
    found = [
        trainer.strategy.broadcast(own, src=first)
        for first in range(0, trainer.world_size, processes)
    ]
    blind = [f"{name} (machine {rank})" for rank, (_, name, sees) in enumerate(found) if not sees]
    return Machines([address for address, _, _ in found], found[0][1], blind, not sees)


def _sees(trainer: pl.Trainer, checkpoints: CheckpointStore) -> bool:
    """Whether this process sees a file that rank 0 makes where checkpoints go."""
    if not isinstance(checkpoints.base_path, Path):
        return True
    file = None
    if trainer.is_global_zero:
        file = checkpoints.base_path / f".det_compat-{uuid.uuid4().hex}"
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
        except OSError:  # The first checkpoint tells of it.
            file = None
    there = trainer.strategy.broadcast(file)
    found = there is None or there.exists()
    trainer.strategy.barrier("det_compat: all have looked for the file")
    if file is not None:
        file.unlink(missing_ok=True)
    return found


def brought(ranks: DistributedContext, directory: Path | None, *, is_blind: bool) -> Path:
    """The directory of a checkpoint, which rank 0 sends to machines that do not see it.

    All ranks have to call it.

    Args:
        ranks: the ranks.
        directory: the checkpoint; None where it cannot be seen.
        is_blind: whether this machine does not see it; all of its ranks say the same.

    Returns:
        The directory, or on a machine that does not see it a copy that goes with the process.
    """
    target = None
    if is_blind and ranks.local_rank == 0:
        target = Path(tempfile.mkdtemp(prefix="det_compat-"))
        atexit.register(shutil.rmtree, target, ignore_errors=True)
    files = _files(directory) if ranks.rank == 0 and directory is not None else []
    for name in ranks.broadcast(files):
        blocks = _blocks(directory / name) if ranks.rank == 0 and directory is not None else None
        file = None if target is None else _made(target / name)
        while block := ranks.broadcast(b"" if blocks is None else next(blocks, b"")):
            if file is not None:
                with file.open("ab") as end:
                    end.write(block)
    target = ranks.broadcast_local(target)
    return target or directory or Path()


def _files(directory: Path) -> list[str]:
    found = (path.relative_to(directory) for path in directory.rglob("*") if path.is_file())
    return sorted(path.as_posix() for path in found if path.parts[0] != _CODE)


def _blocks(file: Path) -> Iterator[bytes]:
    with file.open("rb") as opened:
        while block := opened.read(_BLOCK):
            yield block


def _made(file: Path) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    return file

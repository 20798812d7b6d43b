"""The other processes of a run: it ends within a minute of one of them, in one error."""

from __future__ import annotations

import logging
import os
import socket
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

from det_compat.adapters.lightning.package import pl
from det_compat.core.ranks.starts import NotAllThereError
from det_compat.script.lifeline import Lifeline
from det_compat.script.machines import is_chief
from det_compat.script.meeting import have_met

logger = logging.getLogger("det_compat")

# So long may a process take to notice by itself that another one is gone.
_SECONDS = 15.0
# So long may word of it take after a collective has failed.
_SECONDS_OF_WORD = 5.0
# So long has a process to say that it is there; word of one that does not has to come in time.
_SECONDS_TO_ANSWER = 3.0
_BACKENDS = ("gloo", "NCCL", "ProcessGroup")


class Company(pl.Callback):
    """Ends this process when another one of the run has ended before its time.

    The error is that of the other one. Here, rank 0 says which it was, and how to go on; where rank
    0 itself has ended, the first process of every machine does.

    Args:
        resuming: returns the command that goes on with the run, once its folder is known.
    """

    def __init__(self, resuming: Callable[[], str]) -> None:
        self._resuming = resuming
        self._lifeline: Lifeline | None = None
        self._hosts: list[str] = []
        self._says_of: Callable[[int], bool] = bool
        self._stays = False

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Meet the others."""
        if trainer.world_size < 2 or self._lifeline is not None:
            return
        rank, broadcast = trainer.global_rank, trainer.strategy.broadcast
        self._lifeline = lifeline = Lifeline(rank, self._lost)
        told = lifeline.listen() if rank == 0 else None
        own: Any = (os.environ.get("MASTER_ADDR", "127.0.0.1"), told)
        address, (port, token) = broadcast(own)
        processes = trainer.world_size // trainer.num_nodes
        for first in range(0, trainer.world_size, processes):
            self._hosts += [broadcast(socket.gethostname(), src=first)] * processes
        speaks_for_rank_0 = rank == 1 or trainer.local_rank == 0
        self._says_of = lambda lost: rank == 0 if lost else speaks_for_rank_0
        if rank > 0:
            try:
                lifeline.connect(address, port, token)
            except OSError as error:
                logger.warning(f"rank {rank} will not hear of the end of others: {error}")
        have_met()

    def teardown(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        self.leave()

    def leave(self) -> None:
        """Say to the others that this process ends as it should."""
        if self._lifeline is not None:
            self._lifeline.close()

    def stay(self) -> None:
        """Go on, whatever becomes of the others; they still hear of the end of this process."""
        self._stays = True

    def explain(self, error: BaseException, *, is_alone: bool = False) -> None:
        """Raise SystemExit if ``error`` only says that another process is gone.

        Args:
            error: what has ended this process.
            is_alone: whether there is no other one.
        """
        if isinstance(error, NotAllThereError):
            raise SystemExit(self._of_meeting(error)) from None
        if self._lifeline is None:
            if not is_alone and _is_of_meeting(error):
                why = str(error).partition("\n")[0]
                raise SystemExit(
                    "det-compat: another process has not come, has ended, or is out of reach, "
                    "before training has begun: what it has printed says why. Here it was: "
                    f"{why.rstrip('.')}. {self._going_on(is_chief())}"
                ) from None
            return
        if isinstance(error, (SystemExit, KeyboardInterrupt)):
            self.leave()
        elif _is_of_collective(error):
            deadline = time.monotonic() + _SECONDS_OF_WORD
            self._lifeline.look_for_silent(_SECONDS_TO_ANSWER)
            while self._lifeline.lost is None and time.monotonic() < deadline:
                time.sleep(0.05)
            if (lost := self._lifeline.lost) is not None:
                raise SystemExit(self._message(lost) or 1) from None

    def _of_meeting(self, error: NotAllThereError) -> str | int:
        """What is to be said here of processes that have not come."""
        if error.is_told:
            return 1
        return f"det-compat: {error}. {self._going_on(error.rank == 0)}"

    def _going_on(self, is_chief: bool) -> str:
        # Other ranks do not know the folder of the run before they have met.
        return f"Resume the run by: {self._resuming()}" if is_chief else "Start all again"

    def _message(self, lost: int) -> str:
        """What is to be said here of the end of a process; empty where another one says it."""
        if not self._says_of(lost):
            return ""
        return (
            f"det-compat: rank {lost}, on {self._hosts[lost]}, has ended before the run, stands "
            "still, or is out of reach: what it has printed may say why. Resume the run by: "
            f"{self._resuming()}"
        )

    def _lost(self, rank: int) -> None:
        time.sleep(_SECONDS)
        if self._stays or self._lifeline is None or self._lifeline.is_closed:
            return
        if message := self._message(rank):
            print(message, file=sys.stderr, flush=True)
        os._exit(1)


def _is_of_meeting(error: BaseException) -> bool:
    """Whether an error that comes before training is for want of another process."""
    group = torch.distributed
    if not group.is_initialized():
        # Nobody else has a store before the trial is there.
        return isinstance(error, group.DistError)
    return _is_of_collective(error) and "onnection" in str(error) and group.get_world_size() > 1


def _is_of_collective(error: BaseException) -> bool:
    if isinstance(error, torch.distributed.DistError):
        return True
    return isinstance(error, RuntimeError) and any(name in str(error) for name in _BACKENDS)

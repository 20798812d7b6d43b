"""``from determined.horovod import hvd``: what trials asked Horovod, answered by torch."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NoReturn

from det_compat.launch.horovodrun import (
    create_hostlist_arg,
    create_performance_args,
    create_run_command,
)

if TYPE_CHECKING:
    import torch


__all__ = ["create_hostlist_arg", "create_performance_args", "create_run_command", "hvd"]


class Horovod:
    """Ranks and ``allreduce`` over ``torch.distributed``; one process is rank 0 of 1.

    Everything else of Horovod raises AttributeError: the library itself synchronizes gradients,
    parameters and optimizers.
    """

    Average = "Average"
    Sum = "Sum"

    def rank(self) -> int:
        """The number of this process."""
        dist = _connected()
        return int(os.environ.get("RANK", 0) if dist is None else dist.get_rank())

    def size(self) -> int:
        """The number of processes."""
        dist = _connected()
        return int(os.environ.get("WORLD_SIZE", 1) if dist is None else dist.get_world_size())

    def local_rank(self) -> int:
        """The number of this process on its machine."""
        return int(os.environ.get("LOCAL_RANK", self.rank() % self.local_size()))

    def local_size(self) -> int:
        """The number of processes on this machine."""
        return int(os.environ.get("LOCAL_WORLD_SIZE", self.size()))

    def allreduce(
        self,
        tensor: torch.Tensor,
        average: bool | None = None,
        name: str | None = None,
        *,
        op: str | None = None,
    ) -> torch.Tensor:
        """The average of ``tensor`` over all processes, a new tensor; the sum, if told so.

        ``average=False`` or ``op=hvd.Sum`` asks for the sum. ``name`` has no effect.

        Raises:
            RuntimeError: there are several processes, and they are not connected yet.
            ValueError: ``op`` is neither Sum nor Average.
        """
        if op not in (None, self.Average, self.Sum):
            raise ValueError(f"hvd.allreduce() has hvd.Average and hvd.Sum as op, got {op!r}")
        total = _sum(tensor, self.size())
        if average is False or op == self.Sum:
            return total
        return total / self.size() if total.is_floating_point() else total // self.size()

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"det_compat has no hvd.{name}: of Horovod there are rank, size, local_rank, "
            "local_size and allreduce. Use torch.distributed, or the context's "
            "`distributed.allgather` and `distributed.broadcast` for objects. "
            "See MIGRATION.md#determinedhorovod."
        )


def _connected() -> Any:
    """torch.distributed, if there is a process group."""
    import torch.distributed as dist

    return dist if dist.is_available() and dist.is_initialized() else None


def _sum(tensor: torch.Tensor, size: int) -> torch.Tensor:
    total = tensor.detach().clone()
    dist = _connected()
    if dist is None:
        if size > 1:
            raise RuntimeError(
                f"hvd.allreduce() was called before the {size} processes are connected: call it "
                "when the trial is built, in train_batch for example"
            )
        return total
    # NCCL reduces on GPUs only, Horovod reduced anywhere.
    if dist.get_backend() == "nccl" and total.device.type == "cpu":
        total = total.cuda()
    dist.all_reduce(total)
    return total.to(tensor.device)


hvd: Any = Horovod()

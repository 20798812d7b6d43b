"""Ranks and the exchange of Python objects between them, over ``torch.distributed``."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.distributed as dist

T = TypeVar("T")

_groups_made = itertools.count()

# The variable of torchrun's environment for each number of a DistributedContext.
_TORCHRUN = {
    "rank": "RANK",
    "size": "WORLD_SIZE",
    "local_rank": "LOCAL_RANK",
    "local_size": "LOCAL_WORLD_SIZE",
    "cross_rank": "GROUP_RANK",
    "cross_size": "GROUP_WORLD_SIZE",
}


class DistributedContext:
    """The ranks of a trial and object collectives between them, as in Determined 0.38.1.

    Determined ran the collectives over ZMQ sockets; here they run over a ``torch.distributed``
    process group, which is made on first use if the script has not made one (NCCL where CUDA is
    available, gloo elsewhere). Objects must be picklable. Every rank must make the same calls in
    the same order.

    ``chief_ip``, ``pub_port``, ``pull_port``, ``port_offset`` and ``force_tcp`` configured the
    sockets and have no effect.
    """

    def __init__(
        self,
        *,
        rank: int,
        size: int,
        local_rank: int,
        local_size: int,
        cross_rank: int,
        cross_size: int,
        chief_ip: str | None = None,
        pub_port: int = 12360,
        pull_port: int = 12376,
        port_offset: int = 0,
        force_tcp: bool = False,
    ) -> None:
        if not 0 <= rank < size:
            raise ValueError(f"rank must be at least 0 and less than size={size}, got {rank}")
        self.rank = rank
        self.size = size
        self.local_rank = local_rank
        self.local_size = local_size
        self.cross_rank = cross_rank
        self.cross_size = cross_size
        self._groups: dict[str, Any] = {}
        self._made_process_group = False

    @classmethod
    def from_torch_distributed(cls, chief_ip: str | None = None) -> DistributedContext:
        """The ranks that torchrun put into the environment.

        Raises:
            RuntimeError: a variable of torchrun's is missing.
        """
        missing = [name for name in _TORCHRUN.values() if name not in os.environ]
        if missing:
            raise RuntimeError(
                f"DistributedContext.from_torch_distributed() needs the environment of torchrun, "
                f"but {', '.join(missing)} is not set. Start the script with "
                "`torchrun --nproc_per_node=N --no-python det-compat run SCRIPT`."
            )
        ranks: dict[str, Any] = {
            name: int(os.environ[variable]) for name, variable in _TORCHRUN.items()
        }
        return cls(**ranks, chief_ip=chief_ip)

    @classmethod
    def from_horovod(cls, hvd: Any, chief_ip: str | None = None) -> DistributedContext:
        """Raise RuntimeError: Horovod is not supported."""
        raise RuntimeError(
            "det_compat does not run on Horovod. Start the script with torchrun and give "
            "pytorch.init() no `distributed`: see MIGRATION.md#determinedhorovod."
        )

    @classmethod
    def from_deepspeed(cls, chief_ip: str | None = None) -> DistributedContext:
        """Raise RuntimeError: DeepSpeed trials are not supported."""
        raise RuntimeError(
            "det_compat does not run DeepSpeed trials: see MIGRATION.md#determinedpytorchdeepspeed."
        )

    def get_rank(self) -> int:
        """Index of this process among all processes of the trial."""
        return self.rank

    def get_local_rank(self) -> int:
        """Index of this process among the processes of this machine."""
        return self.local_rank

    def get_size(self) -> int:
        """Number of processes of the trial."""
        return self.size

    def get_num_agents(self) -> int:
        """Number of machines that the trial runs on."""
        return self.cross_size

    def gather(self, stuff: Any) -> list[Any] | None:
        """A list of every rank's ``stuff`` on the chief, None on the others."""
        everything = self.allgather(stuff)
        return everything if self.rank == 0 else None

    def gather_local(self, stuff: Any) -> list[Any] | None:
        """Gather as ``gather`` does, among the processes of this machine."""
        everything = self.allgather_local(stuff)
        return everything if self.local_rank == 0 else None

    def allgather(self, stuff: Any) -> list[Any]:
        """A list of every rank's ``stuff``, on every rank."""
        return _gathered(stuff, self.rank, self.size, self.cpu_group)

    def allgather_local(self, stuff: Any) -> list[Any]:
        """Gather as ``allgather`` does, among the processes of this machine."""
        return _gathered(stuff, self.local_rank, self.local_size, self._machine)

    def broadcast(self, stuff: T) -> T:
        """The chief's ``stuff``, on every rank."""
        return _broadcast(stuff, self.rank, self.rank, self.size, self.cpu_group)

    def broadcast_local(self, stuff: Any = None) -> Any:
        """What the first process of this machine has, on all processes of this machine."""
        return _broadcast(stuff, self.rank, self.local_rank, self.local_size, self._machine)

    def close(self) -> None:
        """Give up the process groups; the default one only if this context made it."""
        self._groups.clear()
        if self._made_process_group and dist.is_initialized():
            dist.destroy_process_group()
        self._made_process_group = False

    def init_process_group(self) -> None:
        """Make the default process group from torchrun's environment, if there is none."""
        if self.size > 1 and not dist.is_initialized():
            _make_process_group()
            self._made_process_group = True

    def cpu_group(self) -> Any:
        """The gloo process group of all ranks: over NCCL, objects would go by way of the GPU."""
        if "world" not in self._groups:
            self.init_process_group()
            is_gloo = dist.get_backend() == "gloo"
            self._groups["world"] = dist.group.WORLD if is_gloo else dist.new_group(backend="gloo")
        return self._groups["world"]

    def _machine(self) -> Any:
        if "machine" not in self._groups:
            first = self.rank - self.local_rank
            machines = {*self.allgather(range(first, first + self.local_size))}
            for ranks in sorted(machines, key=min):
                group = dist.new_group(list(ranks), backend="gloo")
                if self.rank in ranks:
                    self._groups["machine"] = group
        return self._groups["machine"]


def _gathered(stuff: Any, rank: int, size: int, group: Callable[[], Any]) -> list[Any]:
    """The objects of all ``size`` members of a group, of which this one is ``rank``."""
    if size < 2:
        return [stuff]
    everything: list[Any] = [None] * size
    dist.all_gather_object(everything, stuff, group=group())
    everything[rank] = stuff
    return everything


def _broadcast(stuff: T, global_rank: int, rank: int, size: int, group: Callable[[], Any]) -> T:
    """The object of the first member of a group, of which this one is ``rank``."""
    if size < 2:
        return stuff
    box = [stuff]
    dist.broadcast_object_list(box, src=global_rank - rank, group=group())
    return stuff if rank == 0 else box[0]


def _make_process_group() -> None:
    # These modules are not in every build of torch.
    from torch.distributed.distributed_c10d import PrefixStore
    from torch.distributed.rendezvous import rendezvous

    # Keys of a destroyed group stay in torchrun's store, where the next one would take them for
    # its own and wait for ranks at addresses of the past.
    store, rank, size = next(rendezvous("env://"))
    own = PrefixStore(f"det_compat/{next(_groups_made)}", store)
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    dist.init_process_group(backend, store=own, rank=rank, world_size=size)


class DummyDistributedContext(DistributedContext):
    """A trial of one process."""

    def __init__(self) -> None:
        super().__init__(rank=0, size=1, local_rank=0, local_size=1, cross_rank=0, cross_size=1)

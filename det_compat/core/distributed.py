"""Ranks, and the exchange of Python objects between them."""

from __future__ import annotations

import itertools
import os
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

from det_compat.core.ranks.exchange import Exchange, listen, port_of
from det_compat.script.machines import launched, port

if TYPE_CHECKING:
    from det_compat.core.ranks.process_groups import GroupExchange

T = TypeVar("T")

_LOOPBACK = "127.0.0.1"
_ANY_INTERFACE = "0.0.0.0"

_NUMBERS = ("rank", "size", "local_rank", "local_size", "cross_rank", "cross_size")

# The variables of each number of a DistributedContext in the environment of a launcher.
_LAUNCHERS = {
    "from_torch_distributed": (
        "torchrun",
        ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE"),
        "torchrun --nproc_per_node=N --no-python det-compat run SCRIPT",
    ),
    "from_deepspeed": (
        "the deepspeed launcher",
        ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_SIZE", "CROSS_RANK", "CROSS_SIZE"),
        "deepspeed --no_python det-compat run SCRIPT",
    ),
}

# How often the members of each exchange have met, which is the same number for all of them.
_met: dict[str, Iterator[int]] = defaultdict(itertools.count)


class _NotLaunched(KeyError, RuntimeError):
    """No launcher has started this process; scripts that run without one, too, catch KeyError."""

    def __str__(self) -> str:
        return str(self.args[0])  # A KeyError shows the quotes of its text.


class _Meeting(NamedTuple):
    """Where the members of an exchange meet: a name for it, the first one's host, and its port."""

    name: str
    chief: str
    port: int


class DistributedContext:
    """The ranks of a task and object collectives between them, as in Determined 0.38.1.

    The collectives need no process group of ``torch.distributed``, and go over connections to the
    chief, which are made by the first of them. Objects must be picklable. Every rank must make the
    same calls in the same order. Collectives of one rank give the object itself.

    Args:
        rank: index of this process among all.
        size: how many processes there are.
        local_rank: index of this process among those of its machine.
        local_size: how many processes this machine has.
        cross_rank: index of this machine.
        cross_size: how many machines there are.
        chief_ip: where the others reach the process of rank 0; needed on several machines.
        pub_port: the port that rank 0 listens on while the others connect.
        pull_port: the port that the first process of each machine listens on, for the others of
            that machine; ``cross_rank`` is added.
        port_offset: has no effect, as in Determined 0.38.1.
        force_tcp: has no effect.

    Raises:
        AssertionError: there are several machines, and no ``chief_ip``.
        ValueError: some of the six numbers are None and others are not, or there is no such rank.
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
        numbers = (rank, size, local_rank, local_size, cross_rank, cross_size)
        if None in numbers and set(numbers) != {None}:
            names = f"{', '.join(_NUMBERS[:-1])}, and {_NUMBERS[-1]}"
            raise ValueError(f"{names} must all be provided if any are provided")
        self.rank = rank or 0
        self.size = 1 if size is None else size
        self.local_rank = local_rank or 0
        self.local_size = 1 if local_size is None else local_size
        self.cross_rank = cross_rank or 0
        self.cross_size = 1 if cross_size is None else cross_size
        if not 0 <= self.rank < self.size:
            raise ValueError(f"rank must be at least 0 and less than size={size}, got {rank}")
        if self.local_size != self.size and chief_ip is None:
            raise AssertionError(
                f"This is a distributed job (local_size {self.local_size} != size {self.size}): "
                "give chief_ip, the address at which the others reach rank 0"
            )
        self._chief_ip = _LOOPBACK if self.local_size == self.size else str(chief_ip)
        self._pub_port = pub_port
        self._pull_port = pull_port
        self._finds_port = False
        self._over_group = False
        self._exchanges: dict[str, Exchange | GroupExchange] = {}
        self._cpu_group: Any = None
        self._made_process_group = False
        self._is_closed = threading.Event()

    @classmethod
    def from_torch_distributed(cls, chief_ip: str | None = None) -> DistributedContext:
        """The ranks that torchrun put into the environment.

        Args:
            chief_ip: where the others reach rank 0; by default ``DET_CHIEF_IP``, else torchrun's
                ``MASTER_ADDR``.

        Raises:
            KeyError: a variable of torchrun's is missing, as in Determined 0.38.1.
        """
        return cls._launched("from_torch_distributed", chief_ip)

    @classmethod
    def from_deepspeed(cls, chief_ip: str | None = None) -> DistributedContext:
        """The ranks that the launcher of DeepSpeed put into the environment.

        Args:
            chief_ip: where the others reach rank 0; by default ``DET_CHIEF_IP``, else
                ``MASTER_ADDR``.

        Raises:
            KeyError: a variable of the launcher's is missing, as in Determined 0.38.1.
        """
        return cls._launched("from_deepspeed", chief_ip)

    @classmethod
    def from_horovod(cls, hvd: Any, chief_ip: str | None = None) -> DistributedContext:
        """Raise RuntimeError: Horovod is not supported."""
        raise RuntimeError(
            "det_compat does not run on Horovod. Start the script with torchrun, and make the "
            "ranks by from_torch_distributed(): see MIGRATION.md#determinedhorovod."
        )

    @classmethod
    def from_tf_config(cls) -> NoReturn:
        """Raise RuntimeError: TensorFlow is not supported."""
        raise RuntimeError(
            "det_compat does not run TensorFlow's strategies. For ranks of torch, start the script "
            "with torchrun, and make them by from_torch_distributed(): see "
            "MIGRATION.md#determinedkeras."
        )

    @classmethod
    def _launched(cls, method: str, chief_ip: str | None) -> DistributedContext:
        launcher, variables, command = _LAUNCHERS[method]
        missing = [name for name in variables if name not in os.environ]
        if missing:
            raise _NotLaunched(
                f"DistributedContext.{method}() needs the environment of {launcher}, "
                f"but {', '.join(missing)} is not set. Start the script with `{command}`: see "
                "MIGRATION.md#determinedcore."
            )
        numbers: dict[str, Any] = {
            name: int(os.environ[variable])
            for name, variable in zip(_NUMBERS, variables, strict=True)
        }
        chief = chief_ip or os.environ.get("DET_CHIEF_IP") or os.environ.get("MASTER_ADDR")
        context = cls(**numbers, chief_ip=chief)
        # Runs on one machine at the same time, each with a torchrun, have a port of their own.
        context._finds_port = True
        if launched() == "SLURM":  # whose processes have no store to find it by
            context._pub_port, context._pull_port = port(beside=2), port(beside=3)
        return context

    @classmethod
    def over_process_group(cls, **numbers: Any) -> DistributedContext:
        """Ranks whose objects travel over the process group that torch has by then.

        Args:
            numbers: rank, size, local_rank, local_size, cross_rank and cross_size.
        """
        context = cls(chief_ip=_LOOPBACK, **numbers)
        context._over_group = True
        return context

    def get_rank(self) -> int:
        """Index of this process among all processes of the task."""
        return self.rank

    def get_local_rank(self) -> int:
        """Index of this process among the processes of this machine."""
        return self.local_rank

    def get_size(self) -> int:
        """Number of processes of the task."""
        return self.size

    def get_num_agents(self) -> int:
        """Number of machines that the task runs on."""
        return self.cross_size

    def gather(self, stuff: Any) -> list[Any] | None:
        """A list of every rank's ``stuff`` on the chief, None on the others."""
        return [stuff] if self.size < 2 else self._all().gather(stuff)

    def gather_local(self, stuff: Any) -> list[Any] | None:
        """Gather as ``gather`` does, among the processes of this machine."""
        return [stuff] if self.local_size < 2 else self._machine().gather(stuff)

    def allgather(self, stuff: T) -> list[T]:
        """A list of every rank's ``stuff``, on every rank."""
        return [stuff] if self.size < 2 else self._all().allgather(stuff)

    def allgather_local(self, stuff: T) -> list[T]:
        """Gather as ``allgather`` does, among the processes of this machine."""
        return [stuff] if self.local_size < 2 else self._machine().allgather(stuff)

    def broadcast(self, stuff: T) -> T:
        """The chief's ``stuff``, on every rank."""
        return stuff if self.size < 2 else self._all().broadcast(stuff)

    def broadcast_local(self, stuff: Any = None) -> Any:
        """What the first process of this machine has, on all processes of this machine."""
        return stuff if self.local_size < 2 else self._machine().broadcast(stuff)

    def close(self) -> None:
        """Give up the connections, and the default process group if this context made it."""
        # Threads that wait for others to come end, too.
        self._is_closed.set()
        self._is_closed = threading.Event()
        for exchange in self._exchanges.values():
            exchange.close()
        self._exchanges.clear()
        self._cpu_group = None
        if self._made_process_group:
            import torch.distributed as dist

            if dist.is_initialized():
                dist.destroy_process_group()
        self._made_process_group = False

    def init_process_group(self) -> None:
        """Make the default process group of torch, if there is none and there are ranks."""
        if self.size < 2:
            return
        import torch.distributed as dist

        from det_compat.core.ranks import process_groups

        if not dist.is_initialized():
            process_groups.make_process_group(self.rank, self.size, self._chief_ip, self.broadcast)
            self._made_process_group = True

    def cpu_group(self) -> Any:
        """A gloo process group of all ranks."""
        if self._cpu_group is None:
            from det_compat.core.ranks import process_groups

            self.init_process_group()
            self._cpu_group = process_groups.cpu_group()
        return self._cpu_group

    def _all(self) -> Exchange | GroupExchange:
        return self._exchange("all", self._group_of_all if self._over_group else self._connect)

    def _machine(self) -> Exchange | GroupExchange:
        make = self._group_of_machine if self._over_group else self._connect_machine
        return self._exchange("machine", make)

    def _exchange(
        self, name: str, make: Callable[[], Exchange | GroupExchange]
    ) -> Exchange | GroupExchange:
        if name not in self._exchanges:
            self._exchanges[name] = make()
        return self._exchanges[name]

    def _connect(self) -> Exchange:
        host = _LOOPBACK if self.local_size == self.size else _ANY_INTERFACE
        meeting = _Meeting("all", self._chief_ip, self._pub_port)
        return self._meet(meeting, self.rank, self.size, host)

    def _connect_machine(self) -> Exchange:
        # Several machines are on one only where somebody tries them out.
        port = self._pull_port + self.cross_rank
        meeting = _Meeting(f"machine {self.cross_rank}", _LOOPBACK, port)
        return self._meet(meeting, self.local_rank, self.local_size, _LOOPBACK)

    def _meet(self, meeting: _Meeting, rank: int, size: int, host: str) -> Exchange:
        """This process's end of an exchange, whose first member listens on ``host``."""
        store = self._store()
        key = f"det_compat/exchange/{meeting.name}/{next(_met[meeting.name])}"
        if rank == 0:
            listener = listen(host, meeting.port if store is None else 0)
            if store is not None:
                store.set(key, str(port_of(listener)))
            return Exchange(0, size, listener=listener, is_given_up=self._is_closed)
        port = meeting.port if store is None else int(store.get(key))
        address = (meeting.chief, port)
        return Exchange(rank, size, address=address, is_given_up=self._is_closed)

    def _store(self) -> Any:
        if not self._finds_port:
            return None
        from det_compat.core.ranks import process_groups

        return process_groups.torchrun_store()

    def _group_of_all(self) -> GroupExchange:
        from det_compat.core.ranks import process_groups

        return process_groups.GroupExchange(self.rank, 0, self.cpu_group())

    def _group_of_machine(self) -> GroupExchange:
        from det_compat.core.ranks import process_groups

        first = self.rank - self.local_rank
        ranks = self.allgather(range(first, first + self.local_size))
        group = process_groups.machine_group(ranks, self.rank)
        return process_groups.GroupExchange(self.local_rank, first, group)


class DummyDistributedContext(DistributedContext):
    """A task of one process."""

    def __init__(self) -> None:
        super().__init__(rank=0, size=1, local_rank=0, local_size=1, cross_rank=0, cross_size=1)

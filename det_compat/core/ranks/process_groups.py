"""The process groups of ``torch.distributed`` that go with the ranks of a run."""

from __future__ import annotations

import atexit
import datetime
import itertools
import math
import os
import pickle
from collections.abc import Callable
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from det_compat.core.ranks import forks
from det_compat.core.ranks.starts import NotAllThereError, name_of_start

T = TypeVar("T")

# How long an operation may take of a group that nobody has told.
_TORCHS_TIMEOUT = datetime.timedelta(minutes=30)

#: Gives every rank what the first one has.
Broadcast = Callable[[Any], Any]

_groups_made = itertools.count()
_torchrun_store: list[Any] = []


def torchrun_store(seconds: float = math.inf) -> Any:
    """The store that torchrun keeps for its processes; None where it has started none.

    What processes of earlier starts have put there is not seen. All processes have to ask. A store
    that a process of rank 0 is to make at ``MASTER_PORT`` is the script's own affair.

    Args:
        seconds: how long all may take to come, the first time that it is asked for.

    Raises:
        NotAllThereError: they have not.
    """
    if not _torchrun_store:
        _torchrun_store.append(_store_of_start(seconds))
    return _torchrun_store[0]


def _store_of_start(seconds: float) -> Any:
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        return None
    from torch.distributed.distributed_c10d import PrefixStore

    store = _environment_store()
    # The first process may be long in coming: it may download data first.
    store.set_timeout(datetime.timedelta(days=365))
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    start = name_of_start(store, rank, size, seconds)
    return PrefixStore(start, store)


def _environment_store() -> Any:
    # This module is not in every build of torch.
    from torch.distributed.rendezvous import rendezvous

    return next(rendezvous("env://"))[0]


def join_torchrun(backend: str, timeout: datetime.timedelta | None) -> None:
    """Make the default process group of torchrun's processes, of this start and no earlier one.

    Nothing happens in a process that torchrun has not started, that is alone, or has a group.

    Args:
        backend: such as ``gloo``.
        timeout: of the group's operations, and of the meeting of all; None for torch's own.

    Raises:
        NotAllThereError: a process has not come in this time.
    """
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size < 2 or dist.is_initialized():
        return
    if (store := torchrun_store(_seconds(timeout))) is None:
        return
    rank = int(os.environ["RANK"])
    _begin_group(store, backend=backend, rank=rank, world_size=size, timeout=timeout)
    if backend != "gloo":
        # NCCL warns of a process that ends with a group.
        atexit.register(_end_group)


def _seconds(timeout: datetime.timedelta | None) -> float:
    return (timeout or _TORCHS_TIMEOUT).total_seconds()


def _end_group() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def make_process_group(rank: int, size: int, host: str, broadcast: Broadcast) -> None:
    """Make the default process group: NCCL where CUDA is available, gloo elsewhere.

    Its store is the one that the environment names, as torchrun's does. Where it names none, rank 0
    has a store at ``host``, and tells its port by ``broadcast``.
    """
    if "MASTER_ADDR" in os.environ and "MASTER_PORT" in os.environ:
        store = torchrun_store(_seconds(None)) or _environment_store()
    else:
        store = _own_store(rank, size, host, broadcast)
    backend = "nccl" if torch.cuda.is_available() else "gloo"
    _begin_group(store, backend=backend, rank=rank, world_size=size)


def _begin_group(store: Any, **arguments: Any) -> None:
    from torch.distributed.distributed_c10d import PrefixStore

    # Keys of a destroyed group stay in torchrun's store, where the next one would take them for
    # its own and wait for ranks at addresses of the past.
    own = PrefixStore(f"det_compat/{next(_groups_made)}", store)
    dist.init_process_group(store=own, **arguments)
    seconds = _seconds(arguments.get("timeout"))
    wait_for_all(own, arguments["rank"], arguments["world_size"], seconds)


def wait_for_all(store: Any, rank: int, size: int, seconds: float) -> None:
    """Return when all ranks are here: one that leaves the group at once would break it for others.

    gloo calls a group made on one rank while another still connects. That one would fail, and torch
    would number its later groups otherwise: the two would wait for each other forever.

    Raises:
        NotAllThereError: a rank has not come in this time.
    """
    keys = [f"has the group/{other}" for other in range(size)]
    store.set(keys[rank], "")
    try:
        store.wait(keys, datetime.timedelta(seconds=seconds))
    except dist.DistStoreError as error:
        missing = [other for other, key in enumerate(keys) if not store.check([key])]
        is_told = rank > 0 and 0 not in missing
        raise NotAllThereError(rank, missing, seconds, is_told=is_told) from error


def _own_store(rank: int, size: int, host: str, broadcast: Broadcast) -> Any:
    make: Any = dist.TCPStore  # type: ignore[attr-defined]  # torch lists it nowhere.
    if rank != 0:
        return make(host, broadcast(None), size, is_master=False)
    store = make(host, 0, size, is_master=True, wait_for_workers=False)
    broadcast(store.port)
    return store


def cpu_group() -> Any:
    """A gloo process group of all ranks: over NCCL, objects would go by way of the GPU."""
    is_gloo = dist.get_backend() == "gloo"
    return dist.group.WORLD if is_gloo else dist.new_group(backend="gloo")


class GroupExchange:
    """Objects between the members of a gloo group; the interface is that of ``Exchange``.

    Args:
        rank: this member.
        first: the rank, among all processes, of the first member.
        group: the process group.
    """

    def __init__(self, rank: int, first: int, group: Any) -> None:
        self._rank = rank
        self._first = first
        self._group = group
        forks.make_safe()

    def gather(self, thing: Any) -> list[Any] | None:
        """Every member's ``thing``, for the first; None for the others."""
        everything = self.allgather(thing)
        return everything if self._rank == 0 else None

    def allgather(self, thing: T) -> list[T]:
        """Every member's ``thing``, for each; its own is the very object that it gave."""
        own = _packed(thing)
        sizes = [int(size) for size in self._gathered(torch.tensor([len(own)]))]
        padded = torch.nn.functional.pad(own, (0, max(sizes) - len(own)))
        received = zip(self._gathered(padded), sizes, strict=True)
        everything = [_unpacked(tensor[:size]) for tensor, size in received]
        everything[self._rank] = thing
        return everything

    def broadcast(self, thing: T) -> T:
        """The first member's ``thing``, for each."""
        is_first = self._rank == 0
        own = _packed(thing) if is_first else torch.empty(0, dtype=torch.uint8)
        size = self._broadcast(torch.tensor([len(own)]))
        data = self._broadcast(own if is_first else own.resize_(int(size)))
        return thing if is_first else _unpacked(data)

    def close(self) -> None:
        """Do nothing: the group ends with the default one."""

    def _gathered(self, tensor: torch.Tensor) -> list[torch.Tensor]:
        tensors = [torch.empty_like(tensor) for _ in range(dist.get_world_size(self._group))]
        dist.all_gather(tensors, tensor, group=self._group)
        return tensors

    def _broadcast(self, tensor: torch.Tensor) -> torch.Tensor:
        dist.broadcast(tensor, src=self._first, group=self._group)
        return tensor


def _packed(thing: Any) -> torch.Tensor:
    data = pickle.dumps(thing, pickle.HIGHEST_PROTOCOL)
    return torch.frombuffer(bytearray(data), dtype=torch.uint8)


def _unpacked(tensor: torch.Tensor) -> Any:
    return pickle.loads(tensor.numpy().tobytes())


def machine_group(ranks: list[range], rank: int) -> Any:
    """The gloo group of the machine that ``rank`` is on; all ranks have to ask.

    Args:
        ranks: those of each machine.
        rank: this process's.
    """
    found = None
    for own in sorted({*ranks}, key=min):
        group = dist.new_group(list(own), backend="gloo")
        found = group if rank in own else found
    return found

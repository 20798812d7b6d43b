"""On two ranks: object collectives of det_compat and, where it is installed, of determined."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from tests.torchrun import find


class Thing:
    """An object that only pickle can carry."""

    def __init__(self, rank: int) -> None:
        self.rank, self.values = rank, {"a": [1, None], "t": torch.full((2,), float(rank))}

    def __reduce__(self) -> Any:
        return Thing, (self.rank,)


def ours(out: Path) -> Any:
    from det_compat.core import DistributedContext

    context = DistributedContext.from_torch_distributed()
    before = dist.is_initialized()
    found = everything(context)
    made = dist.is_initialized()
    dist.init_process_group("gloo")
    found["after a group"] = context.allgather(found["ranks"][0])
    dist.destroy_process_group()
    found["after it has gone"] = context.broadcast(found["ranks"][0])
    context.close()
    return {**found, "made": (before, made, dist.is_initialized())}


def theirs(out: Path) -> Any:
    if importlib.util.find_spec("determined") is None:
        return None
    from determined.core import DistributedContext

    context = DistributedContext(**ranks(), pub_port=int(sys.argv[2]), pull_port=int(sys.argv[3]))
    try:
        return everything(context)
    finally:
        context.close()


def ranks() -> dict[str, int]:
    rank = int(os.environ["RANK"])
    return dict(rank=rank, size=2, local_rank=rank, local_size=2, cross_rank=0, cross_size=1)


def everything(context: Any) -> dict[str, Any]:
    rank = context.get_rank()
    own = Thing(rank)
    gathered = context.allgather(own)
    return {
        "ranks": (rank, context.get_local_rank(), context.get_size(), context.get_num_agents()),
        "gather": context.gather(("rank", rank)),
        "gather_local": context.gather_local({rank: None}),
        "allgather": context.allgather([rank] * (rank + 1)),
        "allgather_local": context.allgather_local("x" * rank),
        "broadcast": context.broadcast({"from": rank}),
        "broadcast_local": context.broadcast_local(("from", rank)),
        "broadcast_local of nothing": context.broadcast_local(*([7] if rank == 0 else [])),
        "big": len(context.broadcast(b"x" * 3_000_000 if rank == 0 else b"")),
        "things": [(type(thing).__name__, thing.rank, thing.values["t"]) for thing in gathered],
        "is its own": gathered[rank] is own,
        "in threes": [context.allgather(step * 2 + rank) for step in range(3)],
    }


def one_process_a_machine(out: Path) -> Any:
    """Two machines, as far as the ranks tell."""
    from det_compat.core import DistributedContext

    rank = ranks()["rank"]
    context = DistributedContext(
        rank=rank,
        size=2,
        local_rank=0,
        local_size=1,
        cross_rank=rank,
        cross_size=2,
        chief_ip="127.0.0.1",
    )
    return {
        "allgather": context.allgather(rank),
        "gather_local": context.gather_local(rank),
        "allgather_local": context.allgather_local(rank),
        "broadcast_local": context.broadcast_local(rank),
        "agents": context.get_num_agents(),
    }


if __name__ == "__main__":
    find({"ours": ours, "theirs": theirs, "two machines": one_process_a_machine})

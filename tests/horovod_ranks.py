"""On two ranks: what ``determined.horovod.hvd`` answers."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import det_compat
from tests.torchrun import find

det_compat.alias_determined()

from determined.horovod import hvd

RANK = int(os.environ["RANK"])


def ranks(out: Path) -> Any:
    return hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size()


def too_early(out: Path) -> Any:
    return hvd.allreduce(torch.ones(1))


def reduced(out: Path) -> Any:
    dist.init_process_group("gloo")
    given = torch.tensor([1.0, 2.0], requires_grad=True) * (RANK + 1)
    counts = torch.tensor([3 + RANK])
    # The group stays until the process ends: torch 2.4 may wait forever in destroy_process_group
    # for a thread that still has to give back a tensor of Python's.
    return {
        "ranks": (hvd.rank(), hvd.size()),
        "average": hvd.allreduce(given).tolist(),
        "named": hvd.allreduce(given, name="loss").tolist(),
        "sum": hvd.allreduce(given, average=False).tolist(),
        "op": hvd.allreduce(given, op=hvd.Sum).tolist(),
        "integers": hvd.allreduce(counts).tolist(),
        "given": given.tolist(),
    }


if __name__ == "__main__":
    find({"ranks": ranks, "too early": too_early, "reduced": reduced})

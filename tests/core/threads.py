"""Several ranks in one process, a thread each."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from det_compat.core import DistributedContext
from tests.torchrun import free_port

T = TypeVar("T")


def on_ranks(
    function: Callable[..., T], size: int = 2, machines: int = 1, context: Any = DistributedContext
) -> list[T]:
    """What ``function(distributed)`` returns on each rank; the first exception is raised."""
    local_size, port = size // machines, free_port()

    def run(rank: int) -> T:
        distributed = context(
            rank=rank,
            size=size,
            local_rank=rank % local_size,
            local_size=local_size,
            cross_rank=rank // local_size,
            cross_size=machines,
            chief_ip="127.0.0.1",
            pub_port=port,
            pull_port=port + 7,
        )
        try:
            return function(distributed)
        finally:
            distributed.close()

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(run, range(size)))

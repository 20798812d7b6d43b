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
    """What ``function(distributed)`` returns on each rank; the first exception is raised.

    A rank that fails ends the wait of the others for it.
    """
    local_size, port, pull_port = size // machines, free_port(), free_port()
    begun: list[Any] = []
    failed: list[BaseException] = []

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
            pull_port=pull_port,
        )
        begun.append(distributed)
        try:
            return function(distributed)
        except BaseException as error:
            failed.append(error)
            for other in begun:
                other.close()
            raise
        finally:
            distributed.close()

    with ThreadPoolExecutor(size) as pool:
        results = [pool.submit(run, rank) for rank in range(size)]
    if failed:
        raise failed[0]
    return [result.result() for result in results]

"""Work that several processes share, where there is enough of it."""

import gc
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

_Job = TypeVar("_Job")
_Result = TypeVar("_Result")


def in_processes(
    work: Callable[[_Job], _Result], jobs: Sequence[_Job], processes: int
) -> Iterator[_Result]:
    """What comes of each job, in their order, by so many processes."""
    with ProcessPoolExecutor(processes) as pool:
        # What comes with the work goes to each process a few times, and not for each job.
        yield from pool.map(work, jobs, chunksize=len(jobs) // (processes * 8) + 1)


@contextmanager
def without_collector() -> Iterator[None]:
    """No search for cycles: syntax trees have none, and looking took a sixth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()

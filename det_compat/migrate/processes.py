"""Work that several processes share, where there is enough of it."""

import gc
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any, TypeVar

_Job = TypeVar("_Job")
_Result = TypeVar("_Result")


def in_processes(
    work: Callable[[_Job], _Result], jobs: Sequence[_Job], processes: int
) -> Iterator[_Result]:
    """What comes of each job, in their order, by so many processes.

    They are forks, since syntax trees are longer on their way to another process than they take to
    parse: ``work`` has all that each job needs, and only the jobs and their results are sent.
    """
    if min(processes, len(jobs)) < 2:
        yield from map(work, jobs)
        return
    with ProcessPoolExecutor(processes, get_context("fork"), _begin, (work,)) as pool:
        try:
            yield from pool.map(_done, jobs)
        except BaseException:
            # What has begun comes to its end, which is soon.
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _begin(work: Callable[[Any], Any]) -> None:
    """Keep what each job of this process needs.

    Ctrl-C reaches every process of a terminal, and the first one says what comes of it.
    """
    global _work
    _work = work
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _done(job: Any) -> Any:
    return _work(job)


_work: Callable[[Any], Any]


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

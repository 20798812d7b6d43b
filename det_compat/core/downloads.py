"""Who downloads a checkpoint, and what of it."""

from __future__ import annotations

import contextlib
import dataclasses
import enum
from collections.abc import Iterator

from det_compat.core.distributed import DistributedContext
from det_compat.core.storage import Selector


class DownloadMode(enum.Enum):
    """Who downloads: one process for all of its machine, in step, or each for itself."""

    LocalWorkersShareDownload = "LOCAL_WORKERS_SHARE_DOWNLOAD"
    NoSharedDownload = "NO_SHARED_DOWNLOAD"


@dataclasses.dataclass(frozen=True)
class _Failure:
    """What one process of a machine has failed of, for the others."""

    why: str


@contextlib.contextmanager
def shared_selector(
    dist: DistributedContext, selector: Selector | None
) -> Iterator[Selector | None]:
    """A selector, for the first process of a machine, that asks all of them.

    Selectors cannot be sent to another process, so each path is: the others answer until the first
    one has left the block. All ranks have to call it.

    Raises:
        RuntimeError: the first process of the machine has failed in the block.
    """
    is_wanted = selector or (lambda path: True)
    selects = any(dist.allgather(selector is not None))
    if dist.local_rank == 0:

        def ask(path: str) -> bool:
            dist.broadcast_local(path)
            return any(dist.gather_local(is_wanted(path)) or [])

        try:
            yield ask if selects else None
        except BaseException as error:
            dist.broadcast_local(_Failure(f"{type(error).__name__}: {error}"))
            raise
        dist.broadcast_local(None)
    else:
        yield None
        while (path := dist.broadcast_local(None)) is not None:
            if isinstance(path, _Failure):
                raise RuntimeError(f"the first process of this machine failed: {path.why}")
            dist.gather_local(is_wanted(path))

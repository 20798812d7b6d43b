"""Workers of torch loaders that outlive a SIGTERM to the whole process group.

Schedulers and ``timeout`` send it to every process. A worker that died of it would end the run by
an error before its last checkpoint is written. Workers still end with the process they work for.
"""

from __future__ import annotations

import copy
import signal
from collections.abc import Callable
from typing import Any

from torch.utils.data import DataLoader


class IgnoresSigterm:
    """A ``worker_init_fn`` that has a worker ignore SIGTERM, then does what the user's own does."""

    def __init__(self, worker_init_fn: Callable[[int], None] | None) -> None:
        self._worker_init_fn = worker_init_fn

    def __call__(self, worker_id: int) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if self._worker_init_fn is not None:
            self._worker_init_fn(worker_id)


def with_lasting_workers(loader: Any) -> Any:
    """A copy of ``loader`` whose workers ignore SIGTERM; the same one if it has no workers."""
    if not isinstance(loader, DataLoader) or loader.num_workers == 0:
        return loader
    loader = copy.copy(loader)
    loader.worker_init_fn = IgnoresSigterm(loader.worker_init_fn)
    return loader

from __future__ import annotations

import os
import signal
import time
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from det_compat.adapters.loader_workers import with_lasting_workers


class Pids(Dataset[Any]):
    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> int:
        return os.getpid()


def mark(worker_id: int) -> None:
    torch.manual_seed(worker_id)


def test_a_loader_without_workers_is_left_as_it_is() -> None:
    loader = DataLoader(Pids())
    assert with_lasting_workers(loader) is loader
    assert with_lasting_workers([1]) == [1]


@pytest.mark.parametrize("context", [None, "spawn"])
def test_workers_outlive_sigterm_and_end_with_the_loader(context: Any) -> None:
    loader = DataLoader(Pids(), num_workers=1, worker_init_fn=mark, multiprocessing_context=context)
    lasting = with_lasting_workers(loader)
    assert loader.worker_init_fn is mark
    iterator = iter(lasting)
    pid = int(next(iterator))
    os.kill(pid, signal.SIGTERM)
    time.sleep(0.2)
    assert [int(found) for found in iterator] == [pid] * 5
    del iterator
    for _ in range(100):
        if not alive(pid):
            return
        time.sleep(0.1)
    raise AssertionError("the worker goes on")


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True

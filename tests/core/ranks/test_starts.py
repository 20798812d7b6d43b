from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import torch.distributed as dist

from det_compat.core.ranks.starts import name_of_start


def start(store: dist.Store, size: int) -> set[str]:
    """The names that all processes of one start find."""
    with ThreadPoolExecutor(size) as ranks:
        return set(ranks.map(lambda rank: name_of_start(store, rank, size), range(size)))


def test_all_find_one_name_and_another_after_a_restart() -> None:
    store = dist.HashStore()
    first, second = start(store, 3), start(store, 3)
    assert len(first) == len(second) == 1 and first != second


def test_what_a_process_has_left_that_ended_before_is_called_once_more() -> None:
    store = dist.HashStore()
    # Rank 1 of an earlier start is in the store; the next one comes when rank 0 has called it.
    store.set("det_compat/here/1", "of one that has ended")
    with ThreadPoolExecutor(2) as ranks:
        chief = ranks.submit(name_of_start, store, 0, 2)
        store.wait(["det_compat/called"])
        other = ranks.submit(name_of_start, store, 1, 2)
        assert chief.result(30) == other.result(30)

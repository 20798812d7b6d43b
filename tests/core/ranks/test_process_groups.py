from __future__ import annotations

import threading

import pytest
from torch.distributed import HashStore

from det_compat.core.ranks.process_groups import wait_for_all
from det_compat.core.ranks.starts import NotAllThereError


def test_no_rank_goes_on_before_all_have_the_group() -> None:
    store, gone_on = HashStore(), threading.Event()

    def first() -> None:
        wait_for_all(store, 0, 2, 60)
        gone_on.set()

    thread = threading.Thread(target=first)
    thread.start()
    assert not gone_on.wait(0.2)
    wait_for_all(store, 1, 2, 60)
    assert gone_on.wait(60)
    thread.join()


def test_a_rank_that_does_not_come_is_waited_for_as_long_as_was_said() -> None:
    with pytest.raises(NotAllThereError, match=r"0\.1 seconds for rank 1: ") as raised:
        wait_for_all(HashStore(), 0, 2, 0.1)
    assert not raised.value.is_told

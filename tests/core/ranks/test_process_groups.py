from __future__ import annotations

import threading

from torch.distributed import HashStore

from det_compat.core.ranks.process_groups import wait_for_all


def test_no_rank_goes_on_before_all_have_the_group() -> None:
    store, gone_on = HashStore(), threading.Event()

    def first() -> None:
        wait_for_all(store, 2)
        gone_on.set()

    thread = threading.Thread(target=first)
    thread.start()
    assert not gone_on.wait(0.2)
    wait_for_all(store, 2)
    assert gone_on.wait(60)
    thread.join()

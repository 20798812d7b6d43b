from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch.distributed as dist

from det_compat.core.ranks import starts
from det_compat.core.ranks.starts import NotAllThereError, name_of_start


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


@pytest.mark.parametrize(
    ("here", "local_rank", "told"),
    [
        ((0, 1, 2), "0", {0: "rank 3"}),
        ((2,), "0", {2: "ranks 0, 1, 3"}),
        # It is for the first process of its machine to say so.
        ((2,), "1", {}),
    ],
)
def test_one_process_tells_of_those_that_do_not_come(
    here: tuple[int, ...], local_rank: str, told: dict[int, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = dist.HashStore()
    # An earlier start has waited in vain, too.
    store.set("det_compat/given up", '["of", "earlier", "ones", null]')
    monkeypatch.setenv("LOCAL_RANK", local_rank)
    monkeypatch.setattr(starts, "_SECONDS_FOR_CHIEF", 60.0 if 0 in here else 0.0)

    def outcome(rank: int) -> NotAllThereError:
        with pytest.raises(NotAllThereError) as raised:
            name_of_start(store, rank, 4, 0.2)
        return raised.value

    with ThreadPoolExecutor(4) as ranks:
        errors = [error for error in ranks.map(outcome, here) if not error.is_told]
    assert [error.rank for error in errors] == [*told]
    for error in errors:
        assert f"has waited 0.2 seconds for {told[error.rank]}: " in str(error)

from __future__ import annotations

import threading
from multiprocessing.connection import Client
from typing import Any

import pytest

from det_compat.core.distributed import DistributedContext
from det_compat.core.ranks.exchange import Exchange, listen, port_of
from tests.core.threads import on_ranks
from tests.torchrun import free_port


@pytest.mark.parametrize(("size", "machines"), [(4, 1), (4, 4), (6, 3)])
def test_collectives_of_all_ranks_and_of_a_machine(size: int, machines: int) -> None:
    def run(distributed: Any) -> Any:
        rank = distributed.rank
        return [
            distributed.broadcast(rank),
            distributed.broadcast_local(rank),
            distributed.gather(rank),
            distributed.gather_local(rank),
            distributed.allgather(rank),
            distributed.allgather_local(rank),
        ]

    each = size // machines
    for rank, found in enumerate(on_ranks(run, size, machines)):
        first = rank - rank % each
        everyone, machine = list(range(size)), list(range(first, first + each))
        assert found == [
            0,
            first,
            everyone if rank == 0 else None,
            machine if rank == first else None,
            everyone,
            machine,
        ]


def test_a_rank_that_has_ended_is_an_error_for_those_that_wait() -> None:
    def run(distributed: Any) -> Any:
        distributed.allgather(None)
        if distributed.rank == 1:
            return "ended"
        with pytest.raises(RuntimeError, match=r"waited for rank [01], which has ended"):
            distributed.allgather(None)
            distributed.allgather(None)
        return "was told"

    assert on_ranks(run, 3) == ["was told", "ended", "was told"]


def test_what_was_sent_before_the_end_arrives() -> None:
    big = b"x" * 5_000_000

    def run(distributed: Any) -> int:
        return len(distributed.broadcast(big if distributed.rank == 0 else b""))

    assert on_ranks(run) == [len(big)] * 2


def test_strangers_are_turned_away() -> None:
    listener = listen("127.0.0.1", 0)
    address = ("127.0.0.1", port_of(listener))
    found: list[Any] = []

    def chief() -> None:
        exchange = Exchange(0, 2, listener=listener)
        found.append(exchange.gather("chief"))
        exchange.close()

    thread = threading.Thread(target=chief)
    thread.start()
    with Client(address) as stranger:
        stranger.send_bytes(b"GET / HTTP/1.1")
        with Client(address) as other:
            other.send_bytes(b"det_compat exchange, member 7")
            member = Exchange(1, 2, address=address)
            member.gather("member")
    thread.join(20)
    member.close()
    assert found == [["chief", "member"]]


def test_a_port_that_is_in_use_is_named() -> None:
    port = free_port()
    with (
        listen("127.0.0.1", port),
        pytest.raises(OSError, match=rf"127\.0\.0\.1:{port} .*pub_port="),
    ):
        listen("127.0.0.1", port)


def test_a_closed_context_can_be_used_again() -> None:
    def run(distributed: Any) -> Any:
        first = distributed.allgather(distributed.rank)
        distributed.close()
        return first, distributed.allgather(distributed.rank)

    assert on_ranks(run) == [([0, 1], [0, 1])] * 2


@pytest.mark.parametrize("rank", [0, 1])
def test_closing_ends_the_wait_for_ranks_that_never_come(rank: int) -> None:
    port = free_port()
    numbers = {"local_rank": rank, "local_size": 2, "cross_rank": 0, "cross_size": 1}
    distributed = DistributedContext(rank=rank, size=2, pub_port=port, **numbers)
    errors: list[Any] = []

    def wait() -> None:
        with pytest.raises(RuntimeError, match="DistributedContext is closed") as raised:
            distributed.allgather(rank)
        errors.append(raised.value)

    thread = threading.Thread(target=wait)
    thread.start()
    while not errors:
        distributed.close()
        thread.join(0.05)
    listen("127.0.0.1", port).close()

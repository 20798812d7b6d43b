from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from det_compat.core import DistributedContext, DummyDistributedContext
from tests import preloaded
from tests.torchrun import free_port, on_two_ranks

TORCHRUN = {
    "RANK": 3,
    "WORLD_SIZE": 4,
    "LOCAL_RANK": 1,
    "LOCAL_WORLD_SIZE": 2,
    "GROUP_RANK": 1,
    "GROUP_WORLD_SIZE": 2,
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    ports = str(free_port()), str(free_port())
    script = Path(__file__).with_name("collectives.py")
    return on_two_ranks(script, tmp_path_factory, *ports)


EXPECTED: dict[str, tuple[Any, Any]] = {
    "ranks": ((0, 0, 2, 1), (1, 1, 2, 1)),
    "gather": ([("rank", 0), ("rank", 1)], None),
    "gather_local": ([{0: None}, {1: None}], None),
    "allgather": ([[0], [1, 1]],) * 2,
    "allgather_local": (["", "x"],) * 2,
    "broadcast": ({"from": 0},) * 2,
    "broadcast_local": (("from", 0),) * 2,
    "broadcast_local of nothing": (7, 7),
    "big": (3_000_000,) * 2,
    "in threes": ([[0, 1], [2, 3], [4, 5]],) * 2,
}


@pytest.mark.parametrize("what", EXPECTED)
def test_collectives_on_two_ranks(found: list[dict[str, Any]], what: str) -> None:
    assert tuple(rank["ours"][what] for rank in found) == EXPECTED[what]


@pytest.mark.parametrize("what", EXPECTED)
def test_collectives_give_what_determined_gives(found: list[dict[str, Any]], what: str) -> None:
    pytest.importorskip("determined")
    assert [rank["ours"][what] for rank in found] == [rank["theirs"][what] for rank in found]


def test_objects_arrive_whole(found: list[dict[str, Any]]) -> None:
    for rank in found:
        kinds, ranks, tensors = zip(*rank["ours"]["things"], strict=True)
        assert kinds == ("Thing", "Thing")
        assert ranks == (0, 1)
        assert torch.equal(torch.stack(tensors), torch.tensor([[0.0, 0.0], [1.0, 1.0]]))


def test_a_rank_keeps_its_own_object(found: list[dict[str, Any]]) -> None:
    assert [rank["ours"]["is its own"] for rank in found] == [True, True]


def test_no_process_group_is_made_nor_needed(found: list[dict[str, Any]]) -> None:
    assert [rank["ours"]["made"] for rank in found] == [(False, False, False)] * 2
    assert [rank["ours"]["after a group"] for rank in found] == [[0, 1]] * 2
    assert [rank["ours"]["after it has gone"] for rank in found] == [0, 0]


def test_local_collectives_where_each_machine_has_one_process(found: list[dict[str, Any]]) -> None:
    for rank, result in enumerate(found):
        assert result["two machines"] == {
            "allgather": [0, 1],
            "gather_local": [rank],
            "allgather_local": [rank],
            "broadcast_local": rank,
            "agents": 2,
        }


def test_one_process_needs_no_process_group() -> None:
    context = DummyDistributedContext()
    assert isinstance(context, DistributedContext)
    thing = object()
    assert context.gather(thing) == context.allgather(thing) == [thing]
    assert context.gather_local(thing) == context.allgather_local(thing) == [thing]
    assert context.broadcast(thing) is context.broadcast_local(thing) is thing
    assert context.broadcast_local() is None
    context.init_process_group()
    context.close()
    assert not torch.distributed.is_initialized()


def test_one_process_is_as_determined_has_it() -> None:
    reference = pytest.importorskip("determined.core").DummyDistributedContext()
    context = DummyDistributedContext()
    for name in ("rank", "size", "local_rank", "local_size", "cross_rank", "cross_size"):
        assert getattr(context, name) == getattr(reference, name)
    for name in ("get_rank", "get_local_rank", "get_size", "get_num_agents"):
        assert getattr(context, name)() == getattr(reference, name)()


def test_from_torch_distributed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, str(value))
    context = DistributedContext.from_torch_distributed(chief_ip="10.0.0.1")
    assert (context.rank, context.size) == (3, 4)
    assert (context.local_rank, context.local_size) == (1, 2)
    assert (context.cross_rank, context.cross_size) == (1, 2)


def test_from_torch_distributed_names_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in TORCHRUN.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.delenv("LOCAL_RANK")
    monkeypatch.delenv("GROUP_WORLD_SIZE")
    with pytest.raises(RuntimeError, match=r"LOCAL_RANK, GROUP_WORLD_SIZE.*not set.*torchrun"):
        DistributedContext.from_torch_distributed()


@pytest.mark.parametrize(("rank", "size"), [(2, 2), (-1, 2), (0, 0)])
def test_refuses_a_rank_that_there_is_not(rank: int, size: int) -> None:
    with pytest.raises(ValueError, match=f"size={size}, got {rank}"):
        DistributedContext(
            rank=rank, size=size, local_rank=0, local_size=1, cross_rank=0, cross_size=1
        )


def test_takes_the_arguments_of_determined() -> None:
    DistributedContext(
        rank=0,
        size=1,
        local_rank=0,
        local_size=1,
        cross_rank=0,
        cross_size=1,
        chief_ip="127.0.0.1",
        pub_port=1,
        pull_port=2,
        port_offset=3,
        force_tcp=True,
    )


@pytest.mark.parametrize(
    "make",
    [lambda: DistributedContext.from_horovod(None), DistributedContext.from_tf_config],
    ids=["horovod", "tensorflow"],
)
def test_ranks_of_others_are_refused(make: Callable[[], DistributedContext]) -> None:
    with pytest.raises(RuntimeError, match=r"torchrun.*MIGRATION.md"):
        make()


def test_from_deepspeed(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"RANK": 3, "WORLD_SIZE": 4, "LOCAL_RANK": 1, "LOCAL_SIZE": 2, "CROSS_RANK": 1}
    for name, value in values.items():
        monkeypatch.setenv(name, str(value))
    with pytest.raises(RuntimeError, match=r"CROSS_SIZE is not set.*deepspeed"):
        DistributedContext.from_deepspeed(chief_ip="10.0.0.1")
    monkeypatch.setenv("CROSS_SIZE", "2")
    context = DistributedContext.from_deepspeed(chief_ip="10.0.0.1")
    assert (context.rank, context.size, context.local_rank, context.cross_size) == (3, 4, 1, 2)


def test_several_machines_need_the_chief(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = dict(rank=0, size=2, local_rank=0, local_size=1, cross_rank=0, cross_size=2)
    with pytest.raises(AssertionError, match="chief_ip"):
        DistributedContext(**numbers)
    with pytest.raises(ValueError, match="must all be provided"):
        DistributedContext(**{**numbers, "cross_rank": None})


#: A script that starts its ranks itself, and makes a process group in the end.
SPAWNS = """
import json, multiprocessing, sys
import torch
from det_compat.core import DistributedContext

def meet(rank, port, answers):
    context = DistributedContext(
        rank=rank, size=3, local_rank=rank, local_size=3, cross_rank=0, cross_size=1,
        chief_ip="127.0.0.1", pub_port=port, pull_port=port + 1,
    )
    before = [context.allgather(rank), context.gather_local(rank), context.broadcast("x" * rank)]
    context.init_process_group()
    group = torch.distributed.get_world_size()
    torch.distributed.destroy_process_group()
    answers.put([rank, before, group, context.broadcast_local(rank)])
    context.close()

if __name__ == "__main__":
    fork = multiprocessing.get_context("fork")
    answers = fork.Queue()
    port = int(sys.argv[1])
    ranks = [fork.Process(target=meet, args=(n, port, answers), daemon=True) for n in range(3)]
    for process in ranks:
        process.start()
    print(json.dumps(sorted(answers.get(timeout=60) for _ in ranks)))
    for process in ranks:
        process.join()
"""


def test_processes_that_the_script_started(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SPAWNS)
    ended = preloaded.python("script.py", str(free_port()), cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    everyone = [0, 1, 2]
    assert json.loads(ended.stdout) == [
        [rank, [everyone, everyone if rank == 0 else None, ""], 3, 0] for rank in everyone
    ]

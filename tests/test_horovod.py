from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from det_compat.horovod import hvd
from tests.torchrun import on_two_ranks


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return on_two_ranks(Path(__file__).with_name("horovod_ranks.py"), tmp_path_factory)


def test_one_process_is_rank_0_of_1(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    assert (hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size()) == (0, 1, 0, 1)


def test_allreduce_of_one_process_is_a_copy() -> None:
    given = torch.tensor([1.0, 2.0], requires_grad=True)
    for reduced in (hvd.allreduce(given), hvd.allreduce(given, average=False, name="x")):
        assert torch.equal(reduced, given)
        assert not reduced.requires_grad
        assert reduced.data_ptr() != given.data_ptr()


def test_what_allreduce_does_not_do() -> None:
    with pytest.raises(ValueError, match=r"hvd.Average and hvd.Sum as op, got 'Adasum'"):
        hvd.allreduce(torch.ones(1), op="Adasum")


def test_the_rest_of_horovod_is_refused() -> None:
    with pytest.raises(AttributeError, match=r"no hvd.DistributedOptimizer: .*MIGRATION.md#"):
        hvd.DistributedOptimizer  # noqa: B018
    assert not hasattr(hvd, "broadcast_parameters")


def test_ranks_before_there_is_a_process_group(found: list[dict[str, Any]]) -> None:
    assert [each["ranks"] for each in found] == [(0, 2, 0, 2), (1, 2, 1, 2)]
    for each in found:
        assert (
            "RuntimeError: hvd.allreduce() was called before the 2 processes" in each["too early"]
        )


def test_allreduce_on_two_ranks(found: list[dict[str, Any]]) -> None:
    for rank, each in enumerate(found):
        assert each["reduced"] == {
            "ranks": (rank, 2),
            "average": [1.5, 3.0],
            "named": [1.5, 3.0],
            "sum": [3.0, 6.0],
            "op": [3.0, 6.0],
            "integers": [3],
            "given": [1.0 + rank, 2.0 + 2 * rank],
        }

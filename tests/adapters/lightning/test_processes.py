from __future__ import annotations

import pytest

from det_compat import core
from det_compat.adapters.lightning.processes import TrialEnvironment


def environment() -> TrialEnvironment:
    ranks = core.DistributedContext(
        rank=3, size=4, local_rank=1, local_size=2, cross_rank=1, cross_size=2
    )
    return TrialEnvironment(ranks)


def test_ranks_are_those_of_the_trial() -> None:
    found = environment()
    assert (found.world_size(), found.global_rank()) == (4, 3)
    assert (found.local_rank(), found.node_rank()) == (1, 1)
    assert found.creates_processes_externally
    assert not found.detect()


def test_the_address_is_torchruns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    monkeypatch.delenv("MASTER_PORT", raising=False)
    assert (environment().main_address, environment().main_port) == ("127.0.0.1", 29500)
    monkeypatch.setenv("MASTER_ADDR", "10.0.0.7")
    monkeypatch.setenv("MASTER_PORT", "1234")
    assert (environment().main_address, environment().main_port) == ("10.0.0.7", 1234)


def test_lightning_must_count_the_same() -> None:
    found = environment()
    found.set_world_size(4)
    found.set_global_rank(3)
    with pytest.raises(RuntimeError, match=r"world size 8 where pytorch.init\(\) has 4"):
        found.set_world_size(8)
    with pytest.raises(RuntimeError, match=r"rank 0 where pytorch.init\(\) has 3"):
        found.set_global_rank(0)

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from det_compat.core import DistributedContext
from det_compat.script import machines

SLURM: dict[str, Any] = {
    "SLURM_JOB_ID": 123456,
    "SLURM_NTASKS": 4,
    "SLURM_NNODES": 2,
    "SLURM_NODEID": 1,
    "SLURM_PROCID": 3,
    "SLURM_LOCALID": 1,
    "SLURM_JOB_NODELIST": "gpu[09-10]",
}
TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "NODE_RANK")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in (*TORCHRUN, "GROUP_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


def slurm(**more: Any) -> None:
    os.environ.update({name: str(value) for name, value in {**SLURM, **more}.items()})


def test_slurm_tells_of_machines() -> None:
    slurm()
    assert machines.launched() == "SLURM" and not machines.is_chief()
    assert (machines.machine(), machines.machines(), machines.processes_here()) == (1, 2, 2)
    assert machines.addresses() == ["gpu09", "gpu10"]
    slurm(SLURM_PROCID=0, SLURM_JOB_NAME="interactive")
    assert machines.launched() is None and machines.machines() == 1


@pytest.mark.parametrize(
    ("names", "count", "found"),
    [
        ("a1,b[2-3,07]-x,c", 5, ["a1", "b2-x", "b3-x", "b07-x", "c"]),
        ("n[098-101]", 4, ["n098", "n099", "n100", "n101"]),
        ("a,b", 3, ["127.0.0.1", "", ""]),  # which of them these are is not known
    ],
)
def test_names_of_machines(names: str, count: int, found: list[str]) -> None:
    slurm(SLURM_JOB_NODELIST=names)
    assert machines.addresses(count) == found


def test_a_second_machine_has_no_chief() -> None:
    os.environ["NODE_RANK"] = "1"
    assert not machines.is_chief()
    os.environ["NODE_RANK"] = "0"
    assert machines.is_chief()


def test_a_script_of_slurm_has_the_variables_of_torchrun() -> None:
    slurm()
    machines.tell_as_torchrun()
    told = [os.environ[name] for name in TORCHRUN[:-1]]
    assert told == ["3", "4", "1", "2", "1"]
    assert (os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"]) == ("gpu09", "18456")


def test_a_script_that_has_its_rank_keeps_it() -> None:
    slurm()
    os.environ.update(RANK="0", WORLD_SIZE="1")
    machines.tell_as_torchrun()
    assert "LOCAL_RANK" not in os.environ and os.environ["WORLD_SIZE"] == "1"


def test_lightning_is_told_of_tasks_that_are_spread_evenly() -> None:
    slurm(SLURM_NTASKS=3)
    machines.tell_tasks_per_node()
    assert "SLURM_NTASKS_PER_NODE" not in os.environ
    slurm()
    machines.tell_tasks_per_node()
    assert os.environ["SLURM_NTASKS_PER_NODE"] == "2"


def test_jobs_on_one_machine_have_ports_of_their_own() -> None:
    ports = []
    for job in (123456, 123457, 129999):
        slurm(SLURM_JOB_ID=job)
        ports += [machines.port(beside) for beside in range(4)]
    assert len({*ports}) == 12 and all(1024 < port < 65536 for port in ports)
    os.environ["MASTER_PORT"] = "60000"
    assert [machines.port(beside) for beside in range(2)] == [60000, 5489]
    slurm(SLURM_PROCID=0)
    machines.tell_as_torchrun()
    assert DistributedContext.from_torch_distributed()._pub_port == machines.port(2)

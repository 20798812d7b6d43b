from __future__ import annotations

import inspect
from typing import Any

import pytest

import det_compat
from det_compat import info
from det_compat.script.task import Task, told

TRIAL: dict[str, Any] = {
    "trial_id": 1,
    "experiment_id": 2,
    "trial_seed": 3,
    "hparams": {"lr": 0.1},
    "config": {"data": {"path": "/data"}},
    "steps_completed": 4,
    "trial_run_id": 1,
    "debug": False,
    "inter_node_network_interface": None,
}
CLASSES = ["ClusterInfo", "RendezvousInfo", "ResourcesInfo", "TrialInfo"]


def cluster(module: Any = info, **changed: Any) -> Any:
    given: dict[str, Any] = {
        "master_url": "http://localhost:8080",
        "cluster_id": "c",
        "agent_id": "a",
        "slot_ids": [0, 1],
        "task_id": "t",
        "allocation_id": "t.1",
        "session_token": "s",
        "task_type": "TRIAL",
    }
    return module.ClusterInfo(**{**given, **changed})


def whole(module: Any) -> Any:
    return cluster(
        module,
        latest_checkpoint="uuid",
        trial_info=module.TrialInfo(**TRIAL),
        rendezvous_info=module.RendezvousInfo(["10.0.0.1", "10.0.0.2"], 1, [4, 4]),
        resources_info=module.ResourcesInfo(["GPU-1"]),
    )


def test_there_is_no_cluster() -> None:
    assert info.get_cluster_info() is None
    assert det_compat.get_cluster_info is info.get_cluster_info


@pytest.mark.parametrize("name", CLASSES)
def test_the_classes_take_what_determineds_take(name: str) -> None:
    theirs = pytest.importorskip("determined")
    ours, real = (inspect.signature(getattr(m, name).__init__) for m in (info, theirs))
    assert [*ours.parameters] == [*real.parameters]


def test_a_cluster_has_what_determined_gives_it() -> None:
    theirs = pytest.importorskip("determined")
    ours, real = whole(info), whole(theirs)
    public = {name for name in dir(real) if not name.startswith("_")}
    for name in public - {"trial"}:
        assert getattr(ours, name) == getattr(real, name), name
    assert vars(ours.trial) == vars(real.trial)


def test_a_task_that_is_no_trial() -> None:
    theirs = pytest.importorskip("determined")
    for module in (info, theirs):
        notebook = cluster(module, task_type="NOTEBOOK")
        with pytest.raises(RuntimeError, match='"NOTEBOOK"'):
            _ = notebook.trial
        assert notebook.container_addrs == ["127.0.0.1"]
        assert (notebook.container_rank, notebook.container_slot_counts) == (0, [2])
        assert (notebook.user_data, notebook.latest_checkpoint) == ({}, None)


def test_it_is_one_object_until_the_task_says_more(monkeypatch: pytest.MonkeyPatch) -> None:
    task = Task(config={}, hparams={}, trial_seed=1, slots=4, run_dir="/run")
    for name in ("LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE", "GROUP_RANK", "MASTER_ADDR"):
        monkeypatch.delenv(name, raising=False)
    with told(task):
        first = info.get_cluster_info()
        assert first is not None and first is info.get_cluster_info()
        assert (first.slot_ids, first.container_addrs) == ([0, 1, 2, 3], ["127.0.0.1"])
    assert info.get_cluster_info() is None


def test_several_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {"LOCAL_WORLD_SIZE": 4, "GROUP_WORLD_SIZE": 2, "GROUP_RANK": 1, "MASTER_ADDR": "head"}
    for name, value in names.items():
        monkeypatch.setenv(name, str(value))
    with told(Task(config={}, hparams={}, trial_seed=1, slots=8, run_dir="/run")):
        found = info.get_cluster_info()
    assert found is not None
    assert (found.container_rank, found.container_slot_counts) == (1, [4, 4])
    assert (found.container_addrs, found.slot_ids) == (["head", ""], [0, 1, 2, 3])

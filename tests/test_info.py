from __future__ import annotations

from typing import Any

import pytest

import det_compat
from det_compat import info


def cluster(**changed: Any) -> info.ClusterInfo:
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
    return info.ClusterInfo(**{**given, **changed})


def test_there_is_no_cluster() -> None:
    assert info.get_cluster_info() is None
    assert det_compat.get_cluster_info is info.get_cluster_info


def test_a_cluster_has_what_determined_gives_it() -> None:
    theirs = pytest.importorskip("determined")
    trial = info.TrialInfo(trial_id=1, experiment_id=2, trial_seed=3, hparams={"lr": 0.1})
    ours = cluster(
        trial_info=trial,
        rendezvous_info=info.RendezvousInfo(["10.0.0.1", "10.0.0.2"], 1, [4, 4]),
        resources_info=info.ResourcesInfo(["GPU-1"]),
    )
    public = {name for name in dir(theirs.ClusterInfo) if not name.startswith("_")}
    assert public <= set(dir(ours))
    assert ours.trial.hparams == {"lr": 0.1}
    assert (ours.container_addrs, ours.container_rank) == (["10.0.0.1", "10.0.0.2"], 1)
    assert (ours.container_slot_counts, ours.gpu_uuids) == ([4, 4], ["GPU-1"])


def test_a_task_that_is_no_trial() -> None:
    notebook = cluster(task_type="NOTEBOOK")
    with pytest.raises(RuntimeError, match="'NOTEBOOK'"):
        _ = notebook.trial
    assert notebook.container_addrs == ["127.0.0.1"]
    assert (notebook.container_rank, notebook.container_slot_counts) == (0, [2])
    assert (notebook.user_data, notebook.latest_checkpoint) == ({}, None)

from __future__ import annotations

import json
import os
from dataclasses import replace

import pytest

import det_compat.info
from det_compat.script.task import Task, current_task, tell, told

TASK = Task(
    config={"data": {"path": "x"}, "debug": True},
    hparams={"lr": 0.1, "layers": [1, 2]},
    trial_seed=5,
    slots=2,
    run_dir="/run",
    latest_checkpoint="uuid",
    steps_completed=30,
)


def test_no_task() -> None:
    assert current_task() is None
    assert det_compat.info.get_cluster_info() is None


def test_a_process_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in TASK.variables().items():
        monkeypatch.setenv(name, value)
    assert current_task() == TASK


def test_as_on_a_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in TASK.variables().items():
        monkeypatch.setenv(name, value)
    info = det_compat.info.get_cluster_info()
    assert info is not None
    assert info.task_type == "TRIAL"
    assert info.trial.hparams == {"lr": 0.1, "layers": [1, 2]}
    assert info.trial.trial_seed == 5
    assert info.trial._config["debug"] is True
    assert info.latest_checkpoint == "uuid"
    assert info.user_data == {"path": "x"}
    assert info.slot_ids == [0, 1]
    assert info.container_rank == 0


def test_the_variables_of_a_container_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOCAL_WORLD_SIZE", raising=False)
    before = dict(os.environ)
    with told(TASK):
        told_now = dict(os.environ)
        # This is what Determined 0.38.1 itself makes of them.
        trial = pytest.importorskip("determined").TrialInfo._from_env()
        assert (trial.hparams, trial._config) == (TASK.hparams, TASK.config)
        assert (trial.trial_seed, trial._steps_completed, trial._debug) == (5, 30, True)
        assert told_now["DET_LATEST_CHECKPOINT"] == "uuid"
        assert json.loads(told_now["DET_SLOT_IDS"]) == [0, 1]
        assert told_now["DET_MASTER"] == told_now["DET_RESOURCES_ID"] == ""
        tell(replace(TASK, latest_checkpoint=None, trial_seed=6))
        assert "DET_LATEST_CHECKPOINT" not in os.environ
        assert os.environ["DET_TRIAL_SEED"] == "6"
    assert dict(os.environ) == before

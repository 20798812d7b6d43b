from __future__ import annotations

import pytest

import det_compat.info
from det_compat.script.task import Task, current_task

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

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from det_compat.script.machines import launched
from det_compat.shared import own_process
from tests.search.tune.test_workers import attempt


def test_a_trial_is_no_task_of_slurm_where_slurm_has_started_the_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(own_process, "_is_ours", False)  # what the trial says of it ends here
    for name, value in {"NTASKS": "2", "PROCID": "1", "JOB_NAME": "job.sh"}.items():
        monkeypatch.setenv(f"SLURM_{name}", value)
    assert launched() == "SLURM"
    found: list[Any] = []

    def train_one(*args: Any, **kwargs: Any) -> None:
        found.append((launched(), os.environ.get("SLURM_NTASKS")))

    one = attempt(tmp_path, "trains")
    replace(one, task=replace(one.task, train_one=train_one)).train(found.append)
    assert found == [(None, None)]

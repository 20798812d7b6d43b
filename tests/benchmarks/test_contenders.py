from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from benchmarks.contenders import CONTENDERS, run
from benchmarks.workloads import WORKLOADS

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
]

ALONE = [name for name, workload in WORKLOADS.items() if workload.ranks == 1]


@pytest.mark.parametrize("workload", ALONE)
@pytest.mark.parametrize("contender", [name for name in CONTENDERS if "determined" not in name])
def test_every_contender_trains_every_workload_to_its_end(
    contender: str, workload: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    small = {"batches": 14, "warm_up": 1, "workers": 0}
    if WORKLOADS[workload].checkpoint_period:
        small["checkpoint_period"] = 5
    stopwatch = run(contender, dataclasses.replace(WORKLOADS[workload], **small))
    assert stopwatch.batches_per_second() > 0
    assert stopwatch.batches == 14

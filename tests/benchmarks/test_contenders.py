from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from benchmarks.contenders import CONTENDERS, run
from benchmarks.growth import workload_of
from benchmarks.saving import SAVING
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


@pytest.mark.parametrize("name", ["metrics/10", "models/3", "validation batches/10"])
def test_what_grows_is_trained_to_its_end(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    workload = dataclasses.replace(workload_of(name), batches=3)
    for contender in ("plain PyTorch", "pytorch.Trainer"):
        stopwatch = run(contender, workload)
        assert stopwatch.batches == 3
        assert stopwatch.per_batch().cpu > 0


def test_a_checkpoint_of_a_large_model_is_written_in_what_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (work := tmp_path / "work").mkdir()
    monkeypatch.chdir(work)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    for contender in ("plain PyTorch", "pytorch.Trainer"):
        written = run(contender, SAVING["model of 1 MiB"]).per_batch().written
        assert 2**20 < written < 1.1 * 2**20, contender

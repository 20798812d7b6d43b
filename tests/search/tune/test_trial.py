"""``run_trial`` in this process, with a list in the place of the search."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from det_compat.config.experiment import parse_config
from det_compat.search.records import Report, SearchFolder, Status
from det_compat.search.searchers.plan import plan_search
from det_compat.search.tune import trial as trial_module
from det_compat.search.tune.attempt import TrialTask
from det_compat.search.tune.trial import run_trial
from tests.search.objectives import train_one


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[Report]:
    """What the search was told; standard output stays pytest's."""
    reports: list[Report] = []
    monkeypatch.setattr(trial_module, "log_to", lambda file: None)
    return reports


def start(
    told: list[Report], tmp_path: Path, trainer: Any = train_one, **hparams: Any
) -> SearchFolder:
    config = parse_config(
        {
            "hyperparameters": hparams,
            "searcher": {
                "name": "async_halving",
                "metric": "score",
                "max_trials": 1,
                "num_rungs": 2,
                "max_length": {"batches": 8},
            },
        }
    )
    folder = SearchFolder(tmp_path)
    folder.trial(0).begin(0, 0, hparams)
    task = TrialTask(plan_search(config, 0), config.raw, folder, tmp_path, trainer)
    run_trial({"trial": {"index": 0, "bracket": 0}, "hparams": {"x": "masked"}}, task, told.append)
    return folder


def test_a_trial_reports_and_completes(told: list[Report], tmp_path: Path) -> None:
    record = start(told, tmp_path, "tests.search.objectives:train_one", x=0.5).trial(0)
    assert [(report.batches, report.rungs, report.metric) for report in told] == [
        (2, 1, 0.5),
        (8, 2, 0.5),
    ]
    assert told == record.reports()
    assert record.status is Status.COMPLETED


def test_a_trial_goes_on_from_its_last_report(told: list[Report], tmp_path: Path) -> None:
    record = SearchFolder(tmp_path).trial(0)
    record.begin(0, 0, {})
    (record.folder / "checkpoint_2").write_text("2")
    record.append(Report(2, 1, 0.4, {}, str(record.folder / "checkpoint_2")))
    start(told, tmp_path, x=0.5)
    # the search hears again where it stood, and then what is new
    assert [report.batches for report in told] == [2, 8]
    assert (record.folder / "starts").read_text() == f"{record.folder / 'checkpoint_2'}\n"


def test_one_that_ended_is_not_trained_again(told: list[Report], tmp_path: Path) -> None:
    start(told, tmp_path, x=0.5)
    start(told, tmp_path, x=0.5)
    assert (tmp_path / "trials" / "0000" / "starts").read_text() == "None\n"
    assert [report.batches for report in told] == [2, 8, 8]


@pytest.mark.parametrize(
    ("fate", "status", "reason"),
    [
        ("invalid", Status.INVALID_HP, "x is no good"),
        ("other", Status.ERROR, "no metric 'score': its validation metrics are loss"),
        ("text", Status.ERROR, "is no number: 'good'"),
        ("silent", Status.ERROR, "never reported the metric 'score'"),
        ("nan", Status.COMPLETED, ""),
    ],
)
def test_endings(
    fate: str, status: Status, reason: str, told: list[Report], tmp_path: Path
) -> None:
    record = start(told, tmp_path, x=1, fate=fate).trial(0)
    assert record.status is status
    assert reason in record.reason


def test_an_exception_is_noted_and_passed_on(told: list[Report], tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="this trial raises"):
        start(told, tmp_path, x=1, fate="raises")
    record = SearchFolder(tmp_path).trial(0)
    # whether it is started again is for Tune to say
    assert record.status is Status.UNFINISHED
    assert record.last_error() == "RuntimeError: this trial raises"


def test_the_log_takes_what_the_process_writes(tmp_path: Path) -> None:
    from tests.fresh_python import python

    code = (
        "import os, subprocess, sys; from pathlib import Path\n"
        "from det_compat.search.tune.attempt import log_to\n"
        "log_to(Path('log.txt')); print('printed'); assert sys.stderr.isatty() is False\n"
        "os.write(2, b'written\\n'); subprocess.run(['echo', 'started'])"
    )
    found = python("-c", code, cwd=tmp_path)
    assert (found.stdout, found.returncode) == ("", 0)
    lines = (tmp_path / "log.txt").read_text().split()
    assert sorted(lines) == ["printed", "started", "written"]

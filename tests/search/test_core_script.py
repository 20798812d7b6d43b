"""A trial of a search that is a script of the Core API, without Ray."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from det_compat import InvalidHP
from det_compat.search.records import Report, TrialRecord
from det_compat.search.script_trial import train_one
from tests.fresh_python import environment
from tests.preloaded import executable

SCRIPT = """
import os, sys
import determined as det
from determined import core

info = det.get_cluster_info()
with core.init() as context:
    if info.trial.hparams["lr"] < 0:
        raise det.InvalidHP("negative")
    epoch = 0
    if info.latest_checkpoint:
        with context.checkpoint.restore_path(info.latest_checkpoint) as path:
            epoch = int((path / "epoch").read_text())
    print("begins at", epoch)
    while epoch < 4 and not context.preempt.should_preempt():
        epoch += 1
        loss = info.trial.hparams["lr"] / epoch
        context.train.report_validation_metrics(epoch * 8, {"error": loss, "epochs": epoch})
        with context.checkpoint.store_path({"steps_completed": epoch * 8}) as (path, uuid):
            (path / "epoch").write_text(str(epoch))
        if epoch == info.trial.hparams["dies_at"] and not info.latest_checkpoint:
            os._exit(3)
"""


class Search:
    """Takes reports, and stops the trial after ``stop_at`` batches."""

    def __init__(self, folder: Path, stop_at: int | None) -> None:
        self.record = TrialRecord(folder)
        self.stop_at = stop_at

    def report(self, batches: int, metrics: dict[str, Any], checkpoint: str | None) -> None:
        self.record.append(Report(batches, 0, metrics["error"], metrics, checkpoint))
        if batches == self.stop_at:
            raise SystemExit


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Report]]:
    monkeypatch.setattr(sys, "executable", executable())
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "run").mkdir()

    def train(
        resume_from: str | None = None, stop_at: int | None = None, **hparams: Any
    ) -> list[Report]:
        hparams = {"lr": 0.5, "dies_at": 0, **hparams}
        config = {
            "entrypoint": "python3 train.py",
            "hyperparameters": {name: {"type": "const", "val": v} for name, v in hparams.items()},
            "searcher": {"name": "single", "metric": "error", "max_length": {"epochs": 4}},
        }
        search = Search(tmp_path / "run", stop_at)
        where = {"model_dir": tmp_path, "validate_at": []}
        try:
            train_one(config, tmp_path / "run", search.report, resume_from, **where)
        except SystemExit:
            assert stop_at is not None
        return search.record.reports()

    return train


def test_it_reports_and_is_stopped_and_goes_on(train: Callable[..., list[Report]]) -> None:
    first = train(stop_at=16)
    assert [(one.batches, one.metric) for one in first] == [(8, 0.5), (16, 0.25)]
    # The checkpoint of a validation is saved after it.
    assert Path(first[0].checkpoint or "", "epoch").read_text() == "1"
    every = train(resume_from=first[0].checkpoint)
    assert [one.batches for one in every] == [8, 16, 24, 32]
    assert Path(every[-1].checkpoint or "", "epoch").read_text() == "4"


def test_one_that_died_goes_on_from_its_last_checkpoint(
    train: Callable[..., list[Report]],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        # The search has heard of no checkpoint.
        patch.setattr("det_compat.search.script_trial._note_checkpoint", lambda *_: None)
        with pytest.raises(RuntimeError, match="failed with status 3"):
            train(dies_at=2)
    assert [one.batches for one in train(dies_at=2)] == [8, 16, 24, 32]
    begins = [line for line in capfd.readouterr().out.splitlines() if line.startswith("begins")]
    assert begins == ["begins at 0", "begins at 2"]


def test_invalid_hyperparameters(train: Callable[..., list[Report]]) -> None:
    with pytest.raises(InvalidHP):
        train(lr=-1)

"""One trial of a search that is a script, without Ray."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from det_compat import InvalidHP
from det_compat.config.lengths import Length, Unit
from det_compat.search.records import Report, TrialRecord
from det_compat.search.script_trial import train_one
from tests.fresh_python import environment
from tests.preloaded import executable
from tests.search.tiny import MODEL_DEF

SCRIPT = """
import sys
import determined as det

info = det.get_cluster_info()
if info.trial.hparams["status"]:
    sys.exit(info.trial.hparams["status"])

from determined import pytorch
from model_def import TinyTrial

with pytorch.init(hparams=info.trial.hparams) as context:
    trainer = pytorch.Trainer(TinyTrial(context), context)
    trainer.fit(
        validation_period=pytorch.Epoch(3),
        max_length=pytorch.Epoch(4),
        latest_checkpoint=info.latest_checkpoint,
    )
"""
RUNGS = [Length(1, Unit.EPOCHS), Length(4, Unit.EPOCHS), Length(9, Unit.CUSTOM)]


class Search:
    """Takes reports, and stops the trial after ``stop_at`` batches."""

    def __init__(self, folder: Path, stop_at: int | None = None) -> None:
        self.record = TrialRecord(folder)
        self.stop_at = stop_at
        self.reports: list[Report] = []

    def report(self, batches: int, metrics: dict[str, Any], checkpoint: str | None) -> None:
        report = Report(batches, 0, metrics["error"], metrics, checkpoint)
        self.reports.append(report)
        self.record.append(report)
        if batches == self.stop_at:
            raise SystemExit


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Report]]:
    monkeypatch.setattr(sys, "executable", executable())
    for name, value in environment().items():
        monkeypatch.setenv(name, value)
    (tmp_path / "model_def.py").write_text(MODEL_DEF)
    (tmp_path / "train.py").write_text(SCRIPT)

    def train(
        resume_from: str | None = None, stop_at: int | None = None, **hparams: Any
    ) -> list[Report]:
        hparams = {"seconds": 0, "status": 0, "net": {"lr": 0.05}, **hparams}
        config = {
            "entrypoint": "python3 train.py",
            "hyperparameters": {name: {"type": "const", "val": v} for name, v in hparams.items()},
            "searcher": {"name": "single", "metric": "error", "max_length": {"epochs": 4}},
            "reproducibility": {"experiment_seed": 5},
        }
        (tmp_path / "run").mkdir(exist_ok=True)
        search = Search(tmp_path / "run", stop_at)
        where = {"model_dir": tmp_path, "validate_at": RUNGS}
        try:
            train_one(config, tmp_path / "run", search.report, resume_from, **where)
        except SystemExit:
            assert stop_at is not None
        return search.reports

    return train


def test_it_validates_at_rungs_and_goes_on(train: Callable[..., list[Report]]) -> None:
    whole = train()
    assert [(one.batches, one.metrics["epochs"]) for one in whole] == [(8, 1), (24, 3), (32, 4)]
    assert Path(whole[-1].checkpoint or "", "metadata.json").exists()
    # which ends the script, since train() waits for it
    first = train(stop_at=24)
    assert [one.batches for one in first] == [8, 24]
    rest = train(resume_from=first[-1].checkpoint)
    assert [(one.batches, one.metric) for one in rest] == [(32, whole[-1].metric)]


def test_a_script_that_fails(train: Callable[..., list[Report]]) -> None:
    with pytest.raises(RuntimeError, match="the script failed with status 3"):
        train(status=3)


def test_invalid_hyperparameters(train: Callable[..., list[Report]]) -> None:
    with pytest.raises(InvalidHP):
        train(net={"lr": -1})

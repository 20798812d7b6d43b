"""A trial of a search that is a script of the Core API, without Ray."""

from __future__ import annotations

from pathlib import Path

import pytest

from det_compat import InvalidHP
from tests.search.script_search import ScriptSearch

SCRIPT = """
import json, os, sys
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
    print("told", json.loads(os.environ["DET_COMPAT_TASK"])["epochs_completed"], "epochs")
    while epoch < 4 and not context.preempt.should_preempt():
        epoch += 1
        loss = info.trial.hparams["lr"] / epoch
        context.train.report_validation_metrics(epoch * 8, {"error": loss, "epochs": epoch})
        with context.checkpoint.store_path({"steps_completed": epoch * 8}) as (path, uuid):
            (path / "epoch").write_text(str(epoch))
        if epoch == info.trial.hparams["dies_at"] and not info.latest_checkpoint:
            os._exit(3)
"""


@pytest.fixture
def search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptSearch:
    (tmp_path / "train.py").write_text(SCRIPT)
    return ScriptSearch(tmp_path, monkeypatch, [], lr=0.5, dies_at=0)


def test_it_reports_and_is_stopped_and_goes_on(
    search: ScriptSearch, capfd: pytest.CaptureFixture[str]
) -> None:
    search.train(stop_at=16)
    first = search.record.reports()
    assert [(one.batches, one.metric) for one in first] == [(8, 0.5), (16, 0.25)]
    # The checkpoint of a validation is saved after it.
    assert Path(first[0].checkpoint or "", "epoch").read_text() == "1"
    search.train(resume_from=first[0].checkpoint)
    every = search.record.reports()
    assert [one.batches for one in every] == [8, 16, 24, 32]
    assert Path(every[-1].checkpoint or "", "epoch").read_text() == "4"
    assert "told 1 epochs" in capfd.readouterr().out


def test_one_that_died_goes_on_from_its_last_checkpoint(
    search: ScriptSearch,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with monkeypatch.context() as patch:
        # The search has heard of no checkpoint.
        patch.setattr("det_compat.search.script_trial._note_checkpoint", lambda *_: None)
        with pytest.raises(RuntimeError, match="failed with status 3"):
            search.train(dies_at=2)
    search.train(dies_at=2)
    assert [one.batches for one in search.record.reports()] == [8, 16, 24, 32]
    begins = [line for line in capfd.readouterr().out.splitlines() if line.startswith("begins")]
    assert begins == ["begins at 0", "begins at 2"]


def test_invalid_hyperparameters(search: ScriptSearch) -> None:
    with pytest.raises(InvalidHP):
        search.train(lr=-1)

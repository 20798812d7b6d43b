"""One trial of a search that is a script, without Ray."""

from __future__ import annotations

from pathlib import Path

import pytest

from det_compat import InvalidHP
from det_compat.config.lengths import Length, Unit
from tests.search.script_search import ScriptSearch
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


@pytest.fixture
def search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ScriptSearch:
    (tmp_path / "model_def.py").write_text(MODEL_DEF)
    (tmp_path / "train.py").write_text(SCRIPT)
    return ScriptSearch(tmp_path, monkeypatch, RUNGS, seconds=0, status=0, net={"lr": 0.05})


def test_it_validates_at_rungs_and_goes_on(search: ScriptSearch) -> None:
    whole = search.train()
    assert [(one.batches, one.metrics["epochs"]) for one in whole] == [(8, 1), (24, 3), (32, 4)]
    assert Path(whole[-1].checkpoint or "", "metadata.json").exists()
    # This ends the script, too: train() waits for it.
    first = search.train(stop_at=24)
    assert [one.batches for one in first] == [8, 24]
    rest = search.train(resume_from=first[-1].checkpoint)
    assert [(one.batches, one.metric) for one in rest] == [(32, whole[-1].metric)]


def test_a_script_that_fails(search: ScriptSearch) -> None:
    with pytest.raises(RuntimeError, match="the script failed with status 3"):
        search.train(status=3)


def test_invalid_hyperparameters(search: ScriptSearch) -> None:
    with pytest.raises(InvalidHP):
        search.train(net={"lr": -1})

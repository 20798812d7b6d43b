"""One trial of a search, trained in a fresh process as a search trains it, without Ray."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.preloaded import python
from tests.search.tiny import write_project

TRAIN = """
import json, os, sys
from pathlib import Path
sys.modules.pop("torch.utils.tensorboard", None)
from det_compat import InvalidHP
from det_compat.adapters.experiment.search_trial import train_one
from det_compat.config.experiment import read_config
from det_compat.config.lengths import Length, Unit
from det_compat.search.searchers.plan import trial_config

forked_with = sorted(sys.modules)
project = Path("project").resolve()
rungs = [Length(1, Unit.EPOCHS), Length(4, Unit.EPOCHS)]
config = read_config(project / "search.yaml")

class Stopped(BaseException):
    pass

def train(run_dir, lr, stop_at=0, start=None):
    raw = trial_config(config.raw, {"global_batch_size": 4, "seconds": 0, "net": {"lr": lr}}, 11)
    raw["min_validation_period"] = {"batches": 12}
    raw["environment"] = {"environment_variables": ["NAMED=1"]}
    reports = []

    def report(batches, metrics, checkpoint):
        is_complete = (Path(checkpoint) / "metadata.json").exists()
        reports.append([batches, metrics, checkpoint, is_complete])
        if batches == stop_at:
            raise Stopped

    try:
        train_one(raw, run_dir, report, start, model_dir=project, validate_at=rungs)
    except Stopped:
        pass
    return reports

here = Path.cwd()
whole = train(here / "whole", 0.05)
first = train(here / "parts", 0.05, stop_at=12)
rest = train(here / "parts", 0.05, start=first[-1][2])
try:
    train(here / "invalid", -1)
except InvalidHP as error:
    invalid = str(error)
print(json.dumps([whole, first, rest, invalid, os.environ["NAMED"], forked_with]))
"""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tmp_path_factory.mktemp("search")
    write_project(folder / "project")
    found = python("-c", TRAIN, cwd=folder)
    assert found.returncode == 0, found.stderr
    return json.loads(found.stdout.splitlines()[-1])


def test_it_validates_at_rungs_and_reports_with_checkpoints(trained: Any) -> None:
    whole = trained[0]
    # epochs of 8 batches: rungs after 8 and 32, the config's own after 12 and 24
    assert [report[0] for report in whole] == [8, 12, 24, 32]
    assert [report[1]["epochs"] for report in whole] == [1, 1, 3, 4]
    assert all(isinstance(report[1]["error"], float) for report in whole)
    assert all(is_complete for *_, is_complete in whole)
    # the best and the latest are one here
    kept = [Path(checkpoint).exists() for _, _, checkpoint, _ in whole]
    assert kept == [False, False, False, True]


def test_it_goes_on_from_a_checkpoint(trained: Any) -> None:
    whole, first, rest, *_ = trained
    assert [report[0] for report in [*first, *rest]] == [8, 12, 24, 32]
    errors = [report[1]["error"] for report in [*first, *rest]]
    assert errors == [report[1]["error"] for report in whole]


def test_hyperparameters_that_cannot_be_used(trained: Any) -> None:
    assert trained[3] == "negative"


def test_environment_variables_are_set(trained: Any) -> None:
    assert trained[4] == "1"


def test_trials_are_forked_with_what_their_loggers_import(trained: Any) -> None:
    assert "torch.utils.tensorboard" in trained[5]

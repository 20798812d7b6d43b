"""Event files of reported metrics: as torch's own writer has them, and without torch."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from det_compat.core.reports.event_files import EventFiles, summary_writer
from tests.fresh_python import python

CODE = """
import sys
import det_compat
det_compat.alias_determined()
from determined import core
with core.init() as context:
    context.train.report_training_metrics(1, {"loss": 0.5})
    context.train.report_validation_metrics(1, {"loss": 0.25})
print("torch" in sys.modules)
"""


def _scalars(path: Path) -> dict[str, list[Any]]:
    module = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")
    events = module.EventAccumulator(str(path)).Reload()
    tags = events.Tags()["scalars"]
    return {tag: [(one.step, one.value) for one in events.Scalars(tag)] for tag in tags}


def test_they_are_those_of_torch(tmp_path: Path) -> None:
    values = [0.1, 3, 1e300, float("inf"), -(2**70)]
    ours, torchs = EventFiles(tmp_path / "ours"), summary_writer(tmp_path / "torchs")
    for step, value in enumerate(values):
        ours.write("training", {"loss": value}, step)
        torchs.add_scalar("loss", value, step)
    ours.close()
    torchs.close()
    assert _scalars(tmp_path / "ours") == _scalars(tmp_path / "torchs") != {}


def test_reports_of_a_script_import_no_torch(tmp_path: Path) -> None:
    done = python("-c", CODE, cwd=tmp_path)
    assert done.stdout == "False\n", done.stderr
    [run] = (tmp_path / "runs").iterdir()
    assert _scalars(run) == {"loss": [(1, 0.5)], "val_loss": [(1, 0.25)]}

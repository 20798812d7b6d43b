import json
from pathlib import Path

import pytest

from det_compat.analysis.source import read
from det_compat.migrate.results import FileResult
from det_compat.migrate.review.notebooks import using

_MODEL = b"""
class Trial(pl.LightningModule):
    def __init__(self, *, lr): ...
class Heir(Trial): ...
class Net(torch.nn.Module): ...
"""
_TRIAL = FileResult(Path("model_def.py"), b"", _MODEL)
_OLD = FileResult(Path("old.py"), b"", b"class Old: ...", trials=("Old",))


@pytest.mark.parametrize(
    ("cell", "is_left"),
    [
        ("from determined.experimental import client", True),
        ("import pedl", True),
        ("!det experiment create const.yaml .", True),
        ("from determined import (\nmodel.eval()", True),
        ("import old", True),
        # What is Determined's by its name alone is not.
        ("model.eval()\ncontext = step(batch)\nwith open(context) as file: pass", False),
        ("import torch\nprint(torch.det(matrix))", False),
        ("from model_definitions import Trial\nTrial(context)", False),
        # A trial that is made as it was is left, one that is made as it is now is not.
        ("from model_def import Trial\nTrial(context)", True),
        ("import code.model_def as trial\ntrial.Trial(lr=1, decay=2)", True),
        ("import code.model_def\ncode.model_def.Heir(context)", True),
        ("from code import model_def\nload(model_def)", True),
        ("from model_def import *\nload(Trial)", True),
        ("from model_def import Trial\nTrial(lr=1).build_training_data_loader()", True),
        ("from model_def import Trial as T\nT(lr=1)\nT.load_from_checkpoint(path)", False),
        ("import model_def\nmodel_def.Heir(lr=1, **more)\nmodel_def.Net(4)", False),
        ("from model_def import Net\nload(Net).context", False),
    ],
)
def test_a_notebook_is_left_to_the_reader_if_it_uses_determined(cell, is_left, tmp_path):
    path = tmp_path / "notes.ipynb"
    cells = [{"cell_type": "code", "source": cell, "metadata": {}, "outputs": []}]
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}))
    assert using([read(path, tmp_path)], [_TRIAL, _OLD]) == ([path] if is_left else [])

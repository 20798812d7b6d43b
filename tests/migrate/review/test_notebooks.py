import json
from pathlib import Path

import pytest

from det_compat.analysis.source import read
from det_compat.migrate.results import FileResult
from det_compat.migrate.review.notebooks import using

_TRIAL = FileResult(Path("model_def.py"), b"", b"", trials=("Trial",))


@pytest.mark.parametrize(
    ("cell", "is_left"),
    [
        ("from determined.experimental import client", True),
        ("import pedl", True),
        ("!det experiment create const.yaml .", True),
        ("from model_def import Trial", True),
        ("import code.model_def as trial", True),
        ("from code import model_def", True),
        ("from determined import (\nmodel.eval()", True),
        # What is Determined's by its name alone is not.
        ("model.eval()\ncontext = step(batch)\nwith open(context) as file: pass", False),
        ("import torch\nprint(torch.det(matrix))", False),
        ("from model_definitions import Net", False),
    ],
)
def test_a_notebook_is_left_to_the_reader_if_it_uses_determined(cell, is_left, tmp_path):
    path = tmp_path / "notes.ipynb"
    cells = [{"cell_type": "code", "source": cell, "metadata": {}, "outputs": []}]
    path.write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}))
    assert using([read(path, tmp_path)], [_TRIAL]) == ([path] if is_left else [])

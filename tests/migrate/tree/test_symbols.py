from __future__ import annotations

import pytest

from tests.migrate.rewriting import HEADER, rewritten, trial

STEPS = "self.context.backward(loss)\n        self.context.step_optimizer(self.opt)\n"


@pytest.mark.parametrize(
    "written",
    [
        "self.context.backward(loss); self.context.step_optimizer(self.opt)  # both\n",
        "if True: self.context.backward(loss); self.context.step_optimizer(self.opt)\n",
    ],
)
def test_statements_of_one_line_are_read_one_by_one(written, tmp_path):
    made = rewritten(tmp_path, trial((STEPS, written)))
    assert "MIGRATE" not in made
    assert "context" not in made


def test_imports_of_one_line_are_read_one_by_one(tmp_path):
    changed = trial(header=HEADER.replace("import torch\nfrom", "import torch; import os; from"))
    made = rewritten(tmp_path, f"{changed}\nprint(os.name)\n")
    assert made.startswith(
        "import torch\nimport os\nimport pytorch_lightning as pl\n"
        "from torch.utils.data import DataLoader\n"
    )
    assert "MIGRATE" not in made

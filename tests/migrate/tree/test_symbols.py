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


def test_lines_of_trials_are_apart_without_a_name_of_determineds(tmp_path):
    old = 'return {"error": self.model(batch).sum()}'
    source = trial((old, 'error = self.model(batch).sum(); return {"error": error}'))
    net = "class Net(torch.nn.Module):\n    def forward(self, x):\n        y = x + 1; return y\n"
    made = rewritten(tmp_path, f"{source}\n\n{net}")
    assert "error = self.model(batch).sum()\n" in made
    assert 'self.log("error", error, ' in made
    assert made.endswith(net)

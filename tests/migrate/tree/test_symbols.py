from __future__ import annotations

import pytest

from tests.migrate.rewriting import rewritten, trial

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

from __future__ import annotations

import libcst as cst
import pytest
from libcst.helpers import ensure_type

from det_compat.migrate.to_lightning.optimization.gradients import with_gradients
from det_compat.migrate.tree import syntax


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            """
def on_validation_start(self):
    with torch.enable_grad():
        self.train()
""",
            """
def on_validation_start(self):
    with torch.inference_mode(False), torch.enable_grad():
        self.train()
""",
        ),
        (
            """
def evaluate_batch(self, batch):
    with torch.no_grad(), torch.enable_grad():
        self.adapt(batch)
""",
            """
def evaluate_batch(self, batch):
    with torch.no_grad(), torch.inference_mode(False), torch.enable_grad():
        self.adapt(batch)
""",
        ),
    ],
)
def test_gradients_in_a_validation(before: str, after: str) -> None:
    method = ensure_type(syntax.statement(before.lstrip()), cst.FunctionDef)
    assert syntax.code(with_gradients(method)) == after.lstrip()

from __future__ import annotations

import pytest

from tests.migrate.rewriting import method, rewritten, trial

STEP = """\
        loss = self.model(batch).sum()
        self.context.backward(loss)
        self.context.step_optimizer(self.opt)
        return {"loss": loss}
"""


@pytest.mark.parametrize(
    ("before", "after", "is_automatic"),
    [
        ("", "", True),
        ("", 'print("trained")', True),
        ("", 'found["loss"] = 0.0', False),
        ("", "found.update(loss=0.0)", False),
        ("", "print(found)", False),
        ("self.found = found", 'self.found["loss"] = 0.0', False),
        ("found = self.told(found)", "", False),
    ],
)
def test_an_entry_of_the_metrics_is_the_loss(before, after, is_automatic, tmp_path):
    """The variable that would have the loss is there already."""
    lines = [
        "loss = self.model(batch).sum()",
        'found = {"loss": loss / 2, "whole": loss}',
        before,
        'self.context.backward(found["loss"])',
        "self.context.step_optimizer(self.opt)",
        after,
        "return found",
    ]
    step = "".join(f"        {line}\n" for line in lines if line)
    made = rewritten(tmp_path, trial((STEP, step)))
    assert ("automatic_optimization" not in made) is is_automatic
    ending = '    self.log_dict(found)\n    return found["loss"]'
    assert method(made, "training_step").endswith(ending) is is_automatic

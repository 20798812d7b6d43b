from __future__ import annotations

import pytest

from tests.migrate.rewriting import HEADER, method, rewritten, trial

STEP = """\
        loss = self.model(batch).sum()
        self.context.backward(loss)
        self.context.step_optimizer(self.opt)
        return {"loss": loss}
"""


@pytest.mark.parametrize(
    ("line", "is_known"),
    [
        ("loss = sum(each for each in losses.values())", True),
        ("loss = sum(losses.values())", True),
        ("loss = losses['loss']", False),
        ("loss, most = losses['loss'], sum(losses.values())", False),
    ],
)
@pytest.mark.parametrize("between", ["", "        print(loss)\n"])
def test_what_is_added_up_to_a_loss_is_numbers(line, is_known, between, tmp_path):
    """Of which a backward pass is, is one number, and so is all that it is the sum of."""
    step = f"""\
        losses = self.model(batch)
        {line}
        self.context.backward(loss)
{between}        self.context.step_optimizer(self.opt)
        losses["rate"] = 0.1
        return losses
"""
    made = rewritten(tmp_path, trial((STEP, step)))
    known = "    self.log_dict(losses)" if is_known else "    self.log_dict(numbers_of(losses))"
    assert known in method(made, "training_step")


@pytest.mark.parametrize(
    ("line", "is_known"),
    [
        ("from transformers import glue_compute_metrics as scored", True),
        ("from transformers.data.metrics.squad_metrics import squad_evaluate as scored", True),
        ("from own import scored", False),
        ("from transformers import scored", False),
    ],
)
def test_what_functions_of_libraries_return_is_known(line, is_known, tmp_path):
    helper = """\
    def scores(self, batch):
        found = scored("task", batch)
        found["error"] = self.model(batch).sum()
        return found

    def evaluate_batch(self, batch):
        found = self.scores(batch)
        return found
"""
    old = trial().partition("    def evaluate_batch")[2]
    source = trial((f"    def evaluate_batch{old}", helper), header=f"{line}\n{HEADER}")
    made = rewritten(tmp_path, source)
    assert ("numbers_of" in made) is not is_known


@pytest.mark.parametrize(
    ("line", "is_known"),
    [
        ("total = sum(losses.values())\n        print(total.item())", True),
        ("total = sum(losses.values())\n        print(total)", False),
    ],
)
def test_what_is_added_up_to_one_number_is_numbers_in_validations(line, is_known, tmp_path):
    old = '        return {"error": self.model(batch).sum()}\n'
    new = f"        losses, found = self.model(batch)\n        {line}\n        return losses\n"
    made = rewritten(tmp_path, trial((old, new)))
    assert ("numbers_of" in made) is not is_known

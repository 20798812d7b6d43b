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


SEEN = ["output[output < 0.5] = 0.0", "right = (output > 0).sum()"]


@pytest.mark.parametrize(
    ("before", "behind", "is_copied"),
    [
        ([], SEEN, True),
        ([], ["if right:", "    output[0] = 1.0"], True),
        (["self.output = output"], SEEN, False),
        (["flat = output.view(-1)"], [*SEEN, "print(flat)"], False),
        (["flat = output.view(-1)"], SEEN, False),
        ([], [*SEEN, "print(batch)"], False),
        ([], [*SEEN, "output = 1"], False),
        ([], ["output *= 2"], False),
    ],
)
def test_what_a_step_has_not_seen_changed_is_changed_in_a_copy(before, behind, is_copied, tmp_path):
    lines = [
        "output = self.model(batch)",
        *before,
        "loss = torch.nn.functional.mse_loss(output, self.goal)",
        "self.context.backward(loss)",
        "self.context.step_optimizer(self.opt)",
        "right = 1",
        *behind,
        'return {"loss": loss, "right": right}',
    ]
    step = "".join(f"        {line}\n" for line in lines)
    made = rewritten(tmp_path, trial((STEP, step)))
    copy = "        output = output.detach().clone()\n"
    assert made.count(copy) == is_copied
    assert ("automatic_optimization" not in made) is is_copied
    assert not is_copied or made.index(copy) < made.index("output[")


def test_what_a_method_of_the_trial_returns_may_be_kept_by_it(tmp_path):
    lines = [
        "output = self.through(batch)",
        "loss = torch.nn.functional.mse_loss(output, self.goal)",
        "self.context.backward(loss)",
        "self.context.step_optimizer(self.opt)",
        *SEEN,
        'return {"loss": loss, "right": right}',
    ]
    step = "".join(f"        {line}\n" for line in lines)
    through = "    def through(self, x):\n        return self.model(x)\n\n    def evaluate_batch"
    source = trial((STEP, step), ("    def evaluate_batch", through))
    assert "self.automatic_optimization = False" in rewritten(tmp_path, source)


def test_a_dict_of_losses_is_no_tensor_to_be_copied(tmp_path):
    lines = [
        "losses = self.criterion(self.model(batch))",
        "loss = sum(losses.values())",
        "self.context.backward(loss)",
        "self.context.step_optimizer(self.opt)",
        'losses["sum"] = sum(losses.values())',
        "return losses",
    ]
    step = "".join(f"        {line}\n" for line in lines)
    made = rewritten(tmp_path, trial((STEP, step)))
    assert "automatic_optimization" not in made
    assert "detach()" not in made

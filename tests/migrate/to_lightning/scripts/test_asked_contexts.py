"""What scripts ask a context for once its trial has been trained."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.migrate.rewriting import rewritten, trial

SCRIPT = """
HP = {{"lr": 0.1}}


def predict(trial, ctx, rows):
    return trial.model(rows.to(ctx.device)), ctx.get_hparam("lr")


def main():
    with pytorch.init(hparams=HP) as context:
        trial = Trial(context)
{first}        trainer = pytorch.Trainer(trial, context)
        trainer.fit(max_length=pytorch.Epoch(2))
{below}
"""
ASKING = "        print(predict(trial, context, torch.ones(2, 2)))\n"
MOVED = "        rows = torch.ones(2, 2).to(context.device)\n"


def script(folder: Path, **lines: str) -> str:
    source = trial(("self.context.get_per_slot_batch_size()", "4"))
    text = SCRIPT.format(**{"first": "", "below": "", **lines})
    return rewritten(folder, f"from determined import pytorch\n{source}\n\n{text}")


@pytest.mark.parametrize(
    ("below", "after"),
    [
        (ASKING, "    print(predict(trial, trial, torch.ones(2, 2)))\n"),
        (MOVED, "    rows = torch.ones(2, 2).to(trial.device)\n"),
        (f"        if trial:\n    {ASKING}", "        print(predict(trial, trial, torch.o"),
    ],
)
def test_below_fit_the_trial_is_asked_for_the_context(below, after, tmp_path):
    made = script(tmp_path, below=below)
    assert after in made
    assert "trial.model(rows.to(ctx.device)), ctx.hparams.lr" in made
    assert "MIGRATE" not in made
    assert "determined" not in made


@pytest.mark.parametrize("first", [ASKING, MOVED])
def test_a_module_knows_no_device_before_fit(first, tmp_path):
    made = script(tmp_path, first=first)
    assert "# MIGRATE: pytorch.init has no counterpart" in made


def test_another_trial_below_fit_gets_no_trial(tmp_path):
    made = script(tmp_path, below="        other = [Trial(context)]\n")
    assert "other = [Trial(" in made
    assert "Trial(trial)" not in made

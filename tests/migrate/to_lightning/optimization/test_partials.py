from __future__ import annotations

import pytest

from tests.migrate.rewriting import method, rewritten, trial

HEADER = """\
import functools

import torch
from determined.pytorch import DataLoader, LRScheduler, PyTorchTrial, PyTorchTrialContext

CLIP = torch.nn.utils.clip_grad_norm_

"""
KEPT = "lr=0.1))\n        self.move = functools.partial("
STEP = "        self.context.step_optimizer(self.opt)\n"


@pytest.mark.parametrize(
    ("kept", "called"),
    [
        ("self.context.step_optimizer, self.opt)\n", "self.move()"),
        ("context.step_optimizer)\n", "self.move(self.opt)"),
        ("context.step_optimizer, auto_zero_grads=True)\n", "self.move(self.opt, clip_grads=None)"),
    ],
)
def test_a_partial_is_the_call_that_it_stands_for(kept, called, tmp_path):
    source = trial(("lr=0.1))\n", KEPT + kept), (STEP, f"        {called}\n"), header=HEADER)
    made = rewritten(tmp_path, source)
    (tmp_path / "plain").mkdir()
    plain = rewritten(tmp_path / "plain", trial(header=HEADER))
    assert made == plain.replace("import functools\n\n", "")


def test_a_partial_that_a_method_makes(tmp_path):
    lines = """\
        move, self.seen = functools.partial(self.context.to_device), 1
        step = functools.partial(self.context.step_optimizer, self.opt, clip_grads=CLIP)
        step()
"""
    made = rewritten(tmp_path, trial((STEP, lines), header=HEADER))
    assert "MIGRATE: the context's to_device" in made and "step = " not in made
    assert "params = [p for group in opt.param_groups" in made


@pytest.mark.parametrize(
    ("kept", "called", "after"),
    [
        ("context.step_optimizer, self.opt)\n", "self.move()", "run = self.move"),
        ("context.step_optimizer, self.opt)\n", "self.move()", "self.opt, x = 1, 2"),
        ("context.step_optimizer, self.opt)\n", "self.move(*batch)", ""),
        ("context.step_optimizer, clip_grads=None)\n", "self.move(self.opt, clip_grads=CLIP)", ""),
        ("context.step_optimizer, make(self.opt))\n", "self.move()", ""),
    ],
)
def test_a_partial_that_may_be_something_else_is_left(kept, called, after, tmp_path):
    lines = f"        {called}\n        {after}\n" if after else f"        {called}\n"
    made = rewritten(tmp_path, trial(("lr=0.1))\n", KEPT + kept), (STEP, lines), header=HEADER))
    assert "# MIGRATE: the context's step_optimizer has no counterpart" in made


def test_a_partial_that_others_may_call_is_left(tmp_path):
    source = trial(
        ("lr=0.1))\n", f"{KEPT}context.step_optimizer, self.opt)\n"),
        (STEP, "        self.move()\n"),
        header=HEADER,
    )
    (tmp_path / "other.py").write_text("def run(trial):\n    trial.move()\n")
    made = rewritten(tmp_path, source)
    assert "        self.move()\n" in method(made, "training_step").replace("\n    ", "\n        ")
    assert "# MIGRATE: the context's step_optimizer has no counterpart" in made

"""Gradients that are clipped by what a variable has."""

from __future__ import annotations

import textwrap

import pytest

from tests.migrate.rewriting import method, rewritten, trial

STEP = "        self.context.backward(loss)\n        self.context.step_optimizer(self.opt)\n"
CLIP = "lambda ps: torch.nn.utils.clip_grad_norm_(ps, self.most)"
IF_ASKED = """\
    if self.most:
        params = [p for group in optimizer.param_groups for p in group["params"]]
        torch.nn.utils.clip_grad_norm_(params, self.most)"""
STEPPING = "self.context.step_optimizer(self.opt, clip_grads=clip)"
BACKWARD = "self.context.backward(loss)"


def made(tmp_path, lines: str) -> str:
    first = ("self.context = context\n", "self.context = context\n        self.most = 1.0\n")
    return rewritten(tmp_path, trial(first, (STEP, textwrap.indent(lines, "        ") + "\n")))


@pytest.mark.parametrize(
    "setting",
    [
        f"clip = None\nif self.most:\n    clip = {CLIP}",
        f"if self.most:\n    clip = {CLIP}\nelse:\n    clip = None",
        f"clip = ({CLIP}) if self.most else None",
    ],
)
def test_lightning_clips_where_a_condition_says_so(setting, tmp_path):
    for lines in (f"{setting}\n{BACKWARD}", f"{BACKWARD}\n{setting}"):
        text = made(tmp_path, f"{lines}\n{STEPPING}")
        assert method(text, "configure_gradient_clipping").endswith(IF_ASKED)
        assert "automatic_optimization" not in text
        assert "clip = " not in text


@pytest.mark.parametrize(
    "lines",
    [
        f"clip = None\nif self.most:\n    clip = {CLIP}\n{BACKWARD}\nself.most = 2\n{STEPPING}",
        f"clip = None\nif self.ask():\n    clip = {CLIP}\n{BACKWARD}\n{STEPPING}",
        f"clip = None\nif self.most:\n    clip = {CLIP}\nprint(clip)\n{BACKWARD}\n{STEPPING}",
        f"clip = {CLIP}\nif self.most:\n    clip = None\n{BACKWARD}\n{STEPPING}",
        f"if self.most:\n    clip = {CLIP}\nelse:\n    clip = max\n{BACKWARD}\n{STEPPING}",
    ],
)
def test_a_variable_that_is_asked_for_otherwise_stays(lines, tmp_path):
    text = made(tmp_path, lines)
    assert "clip = " in method(text, "training_step")
    assert "        clip(params)" in text

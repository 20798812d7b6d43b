from __future__ import annotations

import pytest

from tests.migrate.rewriting import method, rewritten, trial

STEP = "        self.context.step_optimizer(self.opt)\n"
DEFINED = """\
        def clip(params):
            torch.nn.utils.clip_grad_norm_(params, 1.0)

        self.context.step_optimizer(self.opt, clip)
"""


@pytest.mark.parametrize(
    ("step", "lines"),
    [
        pytest.param(DEFINED, "    clip(params)\n", id="a function is called"),
        pytest.param(
            '        clip = CLIPS[self.context.get_hparam("clip")]\n'
            "        self.context.step_optimizer(self.opt, clip)\n",
            "    if clip is not None:\n        clip(params)\n",
            id="a variable may be None",
        ),
        pytest.param(
            f'        clip = CLIPS[self.context.get_hparam("clip")]\n{STEP[:-2]}, clip)\n'
            "\n    def other(self):\n        def clip(params):\n            pass\n",
            "    if clip is not None:\n        clip(params)\n",
            id="what is a function elsewhere may be None",
        ),
    ],
)
def test_clipping_is_written_out(tmp_path, step, lines):
    made = rewritten(tmp_path, trial((STEP, step)))
    assert lines in method(made, "training_step")


def test_clipping_under_a_condition(tmp_path):
    clip = "(lambda ps: cut(ps, 2)) if self.context.get_hparam('c') else None"
    made = rewritten(tmp_path, trial((STEP, f"{STEP[:-2]}, {clip})\n")))
    assert method(made, "configure_gradient_clipping").endswith(
        "    if self.hparams.c:\n"
        '        params = [p for group in optimizer.param_groups for p in group["params"]]\n'
        "        cut(params, 2)"
    )


GUARDED = """\
    if self.scaler is None:
        opt.step()
    else:
        self.scaler.step(opt)
"""


@pytest.mark.parametrize(
    ("made", "given", "lines"),
    [
        pytest.param("GradScaler()", "self.scaler", "    self.scaler.step(opt)\n", id="a scaler"),
        pytest.param("GradScaler() if AMP else None", "self.scaler", GUARDED, id="it may be None"),
        pytest.param(
            "GradScaler()",
            "self.scaler if AMP else None",
            "    scaler = self.scaler if AMP else None\n"
            + GUARDED.replace("self.scaler", "scaler"),
            id="it may be given",
        ),
    ],
)
def test_a_scaler_that_may_be_none_is_asked_for(tmp_path, made, given, lines):
    source = trial(
        ("class Trial", "AMP = False\n\n\nclass Trial"),
        ("lr=0.1))\n", f"lr=0.1))\n        self.scaler = {made}\n"),
        (STEP, STEP.replace("self.opt)", f"self.opt, scaler={given})")),
    )
    step = method(rewritten(tmp_path, source), "training_step")
    assert f"    self.manual_backward(loss)\n{lines}    opt.zero_grad()\n" in f"{step}\n"


def test_no_variable_of_the_trial_is_overwritten(tmp_path):
    step = STEP.replace("self.opt)", "self.opt, clip_grads=lambda p: clip(p, params))")
    made = rewritten(tmp_path, trial((STEP, f"        params = 0.5\n{step}")))
    assert "    stepped_params = [p for group in opt.param_groups" in method(made, "training_step")
    assert "    clip(stepped_params, params)\n" in method(made, "training_step")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("loss.backward()", "self.manual_backward(loss)"),
        (
            "(loss * 2).backward(retain_graph=True)",
            "self.manual_backward((loss * 2), retain_graph=True)",
        ),
        # It is given a loss, and is none.
        ("engine.backward(loss)", "engine.backward(loss)"),
        ("self.further(loss)", "self.manual_backward(x)"),
    ],
)
def test_backward_passes_are_the_modules(before, after, tmp_path):
    """On several devices Lightning shares gradients in those alone which go by the module."""
    further = "    def further(self, x):\n        x.backward()\n\n    def evaluate_batch"
    source = trial(
        ("        self.context.backward(loss)\n", f"        {before}\n"),
        ("    def evaluate_batch", further),
    )
    assert f"        {after}\n" in rewritten(tmp_path, source)


def test_a_backward_pass_of_an_object_of_its_own_stays(tmp_path):
    kept = "class Kept:\n    def backward(self):\n        self.fn().backward()\n\n\nclass Trial"
    source = trial(
        ("        self.context.backward(loss)\n", "        Kept(loss).backward()\n"),
        ("class Trial", kept),
    )
    assert "        Kept(loss).backward()\n" in rewritten(tmp_path, source)


def test_a_validation_takes_its_own(tmp_path):
    backward = "batch.requires_grad_().sum().backward()"
    source = trial(('        return {"error"', f'        {backward}\n        return {{"error"'))
    assert backward in rewritten(tmp_path, source)

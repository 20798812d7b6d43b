from __future__ import annotations

import textwrap
from typing import Any

import pytest
import pytorch_lightning as pl

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


@pytest.mark.parametrize(
    ("clip", "lines"),
    [
        ("cut if 'c' in H else trim", "if 'c' in H: cut else: trim"),
        ("cut if 'c' in H else trim if 'd' in H else None", "if 'c' in H: cut elif 'd' in H: trim"),
        ("None if 'c' in H else trim", "if not ('c' in H): trim"),
    ],
)
def test_clipping_that_is_chosen_is_chosen_by_statements(clip, lines, tmp_path):
    source = trial((STEP, f"{STEP[:-2]}, {clip})\n"))
    functions = "H = {}\ndef cut(ps): pass\ndef trim(ps): pass\n"
    made = method(rewritten(tmp_path, f"{source}\n{functions}"), "configure_gradient_clipping")
    said = [line.strip() for line in made.splitlines() if "params =" not in line]
    assert " ".join(said).partition("): ")[2].replace("(params)", "") == lines


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


@pytest.mark.parametrize(
    ("test", "is_known"),
    [
        ("self.scaler is not None", True),
        ("self.scaler", True),
        ("self.scaler is None", True),
        ("self.amp", False),
    ],
)
def test_a_scaler_that_is_there_is_not_asked_for_again(tmp_path, test, is_known):
    """Both ways step, and no gradient waits for another batch."""
    step = STEP.strip()
    scaled = step.replace("self.opt)", "self.opt, scaler=self.scaler)")
    first, second = (step, scaled) if test.endswith("is None") else (scaled, step)
    choice = f"        if {test}:\n            {first}\n        else:\n            {second}\n"
    made = "GradScaler() if AMP else None"
    source = trial(
        ("class Trial", "AMP = False\n\n\nclass Trial"),
        ("lr=0.1))\n", f"lr=0.1))\n        self.scaler = {made}\n        self.amp = AMP\n"),
        (f"        {step}\n", choice),
    )
    text = rewritten(tmp_path, source)
    assert method(text, "training_step").count("self.scaler is None") == (
        test.endswith("is None") if is_known else 1
    )
    assert "on_validation_model_zero_grad" not in text


@pytest.mark.parametrize(
    ("made", "lines"),
    [
        ("None if context.get_hparam('c') else CLIP", "if self.c is not None:\n    self.c(params)"),
        ("lambda ps: CLIP(ps, 1.0)", "self.c(params)"),
        ("None\n        self.c = CLIP", "if self.c is not None:\n    self.c(params)"),
    ],
)
def test_an_attribute_that_clips_may_be_none(tmp_path, made, lines):
    kept = f"lr=0.1))\n        self.c = {made}\n"
    source = trial(("lr=0.1))\n", kept), (STEP, STEP.replace("self.opt)", "self.opt, self.c)")))
    hook = method(rewritten(tmp_path, source), "configure_gradient_clipping")
    assert hook.endswith(textwrap.indent(f"]\n{lines}", "    ").lstrip())


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


KEEPS = (
    "lr=0.1))\n",
    "lr=0.1))\n        self.groups = len(self.opt.param_groups)\n",
)
TWICE = ("        self.context.step_optimizer(self.opt)\n", "        self.stepped(2)\n")
STEPPED = (
    "    def evaluate_batch",
    "    def stepped(self, times):\n        self.context.step_optimizer(self.opt)\n\n"
    "    def evaluate_batch",
)
EVALUATES = "    def evaluate_batch"
OTHER = "        self.context.step_optimizer(self.opt)\n"


def test_an_optimizer_that_stays_in_init_is_asked_for_where_it_steps(tmp_path):
    made = rewritten(tmp_path, trial(KEEPS, (OTHER, f"{OTHER}        print(self.groups)\n")))
    assert "on_train_start" not in made
    assert "opt = self.optimizers()\n" in made
    assert "return self.opt" in method(made, "configure_optimizers")


def test_a_method_of_its_own_that_steps_asks_as_well(tmp_path):
    made = rewritten(tmp_path, trial(KEEPS, TWICE, STEPPED))
    assert "opt = self.optimizers()\n    opt.step()" in method(made, "stepped")


@pytest.mark.parametrize(
    "change",
    [
        # It may step there.
        (
            "    def evaluate_batch",
            "    def on(self):\n        go(self.opt)\n\n    def evaluate_batch",
        ),
        (
            "    def evaluate_batch",
            "    def on(self):\n        self.opt = 1\n\n    def evaluate_batch",
        ),
        # A variable of its name is something else.
        (OTHER, f"        opt = 1\n{OTHER}        print(opt)\n"),
        # It is another one later.
        (OTHER, f"{OTHER}        setattr(self, 'opt', None)\n"),
        (OTHER, f"{OTHER}        self.opt = torch.optim.ASGD(self.model.parameters())\n"),
        (OTHER, f"{OTHER}        self.opt, self.old = None, self.opt\n"),
        # Other code has it from the trial.
        ("class Trial", "def look(trial):\n    trial.opt.step()\n\n\nclass Trial"),
    ],
)
def test_where_others_may_step_the_attribute_is_lightnings(tmp_path, change):
    automatic = ("        return {", "        self.opt.zero_grad()\n        return {")
    made = rewritten(tmp_path, trial(KEEPS, automatic, change))
    assert "self.opt = self.optimizers()" in method(made, "on_train_start")


def test_a_module_is_fit_twice(tmp_path, monkeypatch):
    source = trial(KEEPS, TWICE, STEPPED, ("DataLoader([]", "DataLoader(torch.ones(8, 2)"))
    made: dict[str, Any] = {}
    exec(compile(rewritten(tmp_path, source), "made", "exec"), made)
    module = made["Trial"](global_batch_size=2)
    for steps in (4, 4):
        trainer = pl.Trainer(
            max_steps=steps,
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            enable_checkpointing=False,
            accelerator="cpu",
        )
        trainer.fit(module)
        assert trainer.global_step == steps

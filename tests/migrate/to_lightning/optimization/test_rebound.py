from __future__ import annotations

import textwrap
from typing import Any

import pytest
import pytorch_lightning as pl
import torch

from tests.migrate.rewriting import method, rewritten, trial

OPT = "self.opt = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.1))"
SGD = "torch.optim.SGD(self.model.parameters(), lr=0.1)"


def _of(*lines: str) -> str:
    return trial((OPT, "\n        ".join(lines)))


@pytest.mark.parametrize(
    "lines",
    [
        (f"opt = {SGD}", "opt = context.wrap_optimizer(opt)", "self.opt = opt"),
        (f"opt = {SGD}", "opt = context.wrap_optimizer(optimizer=opt)", "self.opt = opt"),
    ],
)
def test_what_wraps_a_variable_anew_is_seen(lines, tmp_path):
    made = rewritten(tmp_path, _of(*lines))
    assert method(made, "configure_optimizers").count("torch.optim.SGD") == 1
    assert "MIGRATE" not in made
    assert "opt = opt" not in made


def test_what_functions_return_wrapped_anew_is_seen(tmp_path):
    text = _of("self.opt = self.made()")
    made = rewritten(
        tmp_path,
        f"{text}\n    def made(self):\n        opt = {SGD}\n"
        "        opt = self.context.wrap_optimizer(opt)\n        return opt\n",
    )
    assert "MIGRATE" not in made
    assert "self.made()" in made


def test_what_is_wrapped_keeps_its_order(tmp_path):
    lines = [f"{name} = {SGD}" for name in "ab"]
    lines += [f"{name} = context.wrap_optimizer({name})" for name in "ab"]
    made = rewritten(tmp_path, _of(*lines, "self.a = a", "self.opt = b"))
    assert "return [a, b]" in method(made, "configure_optimizers")
    other = rewritten(tmp_path, _of(*lines, "self.opt = b", "self.a = a"))
    assert "configure_optimizers must return every optimizer" in other


@pytest.mark.parametrize(
    ("first", "filled", "returned"),
    [
        ("opts = []", "opts.append(o)", "[*self.opts]"),
        ("opts, rest = {}, []", "opts[name] = o", "[*self.opts.values()]"),
    ],
)
def test_a_container_is_kept_from_the_start(first, filled, returned, tmp_path):
    lines = [first, "for name in 'ab':", f"    o = {SGD}", "    o = context.wrap_optimizer(o)"]
    text = _of(*lines, f"    {filled}", "self.opts = opts")
    made = rewritten(tmp_path, text.replace("self.opt)", "self.opts['a'])"))
    assert f"return {returned}" in method(made, "configure_optimizers")
    assert "MIGRATE" not in made


def test_a_container_that_is_another_before_stays(tmp_path):
    lines = ["self.opts = None", "opts = []", f"opts.append(context.wrap_optimizer({SGD}))"]
    made = rewritten(tmp_path, _of(*lines, "self.opts = opts"))
    assert "configure_optimizers must return every optimizer" in made


WRAPPED = "context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.1))"
STEP = "self.context.step_optimizer(self.opt)"


@pytest.mark.parametrize(
    ("lines", "step", "steps"),
    [
        (f"self.sgd = {WRAPPED}\nself.opt = self.sgd", STEP, 3),
        (f"made = self.opt = {WRAPPED}\nself.all = [made]", STEP, 3),
        (f"self.opt = self.sgd = {WRAPPED}", STEP, 3),
        (f"made = self.sgd = {WRAPPED}\nself.opt = made", STEP, 3),
        (f"self.all = {{}}\nself.all['a'] = {WRAPPED}\nself.opt = self.all['a']", STEP, 3),
        (
            f"self._opt = {WRAPPED}",
            f"opt = self._opt\n        {STEP.replace('self.opt', 'opt')}",
            3,
        ),
        (f"self.opt = {WRAPPED}", STEP.replace("self.opt", "getattr(self, 'op' + 't')"), 3),
        (
            "self.all = self.made()\n\ndef made(self):\n"
            f"    return {{'a': {WRAPPED}, 'b': {WRAPPED}}}",
            STEP.replace("self.opt", "self.all['a']"),
            3,
        ),
        (
            "self.all = self.made()\n\ndef made(self):\n    found = []\n    for _ in range(2):\n"
            f"        found.append({WRAPPED})\n    return found",
            f"for opt in self.all:\n            {STEP.replace('self.opt', 'opt')}",
            4,
        ),
    ],
)
def test_lightning_counts_the_steps_by_each_name_of_an_optimizer(lines, step, steps, tmp_path):
    first, _, more = lines.partition("\n\n")
    text = textwrap.indent(first, " " * 8).strip()
    text += f"\n\n{textwrap.indent(more, ' ' * 4)}".rstrip() if more else ""
    text = text.replace("context.wrap", "self.context.wrap")
    source = trial((OPT, text), (STEP, step))
    made = rewritten(tmp_path, source)
    assert "MIGRATE" not in made
    found: dict[str, Any] = {}
    exec(compile(made, "made", "exec"), found)
    quiet = dict.fromkeys(["logger", "enable_checkpointing", "enable_progress_bar"], False)
    runner = pl.Trainer(accelerator="cpu", max_steps=3, enable_model_summary=False, **quiet)
    data = torch.utils.data.DataLoader(torch.ones(8, 2))
    runner.fit(found["Trial"](global_batch_size=4), data, data)
    assert runner.global_step == steps

from __future__ import annotations

from typing import Any

import pytest
import pytorch_lightning as pl
import torch

from tests.migrate.rewriting import HEADER, rewritten, trial

PLAIN = "torch.optim.SGD(self.model.parameters(), lr=0.1)"
AROUND = """\
class Scaled:
    def __init__(self, inner):
        self.inner = inner

    def step({}):
        self.inner.step()


def scaled(inner):
    made = Scaled(inner)
    return made


class Trial("""
NONE, UNKNOWN = "of {}, which takes none", "of {}, and it is not known"


@pytest.mark.parametrize(
    ("step", "made", "said"),
    [
        ("self", f"Scaled({PLAIN})", NONE.format("Scaled")),
        ("self", f"scaled({PLAIN})", NONE.format("Scaled")),
        ("self, closure=None", f"Scaled({PLAIN})", ""),
        ("self, **more", f"scaled({PLAIN})", ""),
        ("self", f"apex.LARC({PLAIN})", UNKNOWN.format("LARC")),
        ("self", f"apex.LARC(optimizer={PLAIN})", UNKNOWN.format("LARC")),
        ("self", PLAIN.replace("torch.optim.SGD", "apex.FusedAdam"), ""),
        ("self", PLAIN.replace("self.model.", "apex.make_optim(self.model)."), ""),
    ],
)
def test_an_optimizer_without_a_closure_is_marked(step, made, said, tmp_path):
    around = ("class Trial(", f"import apex\n\n\n{AROUND.format(step)}")
    after = rewritten(tmp_path, trial((PLAIN, made), around))
    assert ("# MIGRATE: Lightning calls step(closure=...)" in after) is bool(said)
    assert said in after


def test_one_that_may_be_around_another_is_marked(tmp_path):
    kept = (f"self.opt = context.wrap_optimizer({PLAIN})", "self.opt = context.wrap_optimizer(opt)")
    made = (
        "        self.opt =",
        f"        opt = {PLAIN}\n        if self.context.get_hparam('lars'):\n"
        "            opt = LARC(optimizer=opt)\n        self.opt =",
    )
    after = rewritten(
        tmp_path, trial(kept, made, ("class Trial(", "from lars import LARC\n\nclass Trial("))
    )
    assert UNKNOWN.format("LARC") in after


OWN = """\
class Own(torch.optim.SGD):
    @torch.no_grad()
    def step({}):
        \"\"\"Steps against the sign.\"\"\"
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(p.grad.sign(), alpha=group["lr"])


class Trial("""
GIVEN = """\
        if closure is not None:
            with torch.enable_grad():
                closure()
"""


@pytest.mark.parametrize(
    ("step", "made"),
    [
        ("self", "self, closure=None"),
        ("self, scale=1.0", "self, scale=1.0, closure=None"),
        ("self, *, scale=1.0", "self, *, scale=1.0, closure=None"),
    ],
)
def test_an_optimizer_of_the_project_gets_a_closure(step, made, tmp_path):
    change = ("torch.optim.SGD(self", "Own(self")
    after = rewritten(tmp_path, trial(("class Trial(", OWN.format(step)), change))
    docstring = '        """Steps against the sign."""\n'
    assert f"    def step({made}):\n{docstring}{GIVEN}        for group" in after
    assert "MIGRATE" not in after
    assert "automatic_optimization = False" not in after


def test_the_closure_trains(tmp_path):
    names: dict[str, type[pl.LightningModule]] = {}
    data = ("DataLoader([]", "DataLoader(torch.ones(8, 2)")
    source = trial(data, ("class Trial(", OWN.format("self")), ("torch.optim.SGD(self", "Own(self"))
    exec(rewritten(tmp_path, source), names)
    module = names["Trial"](global_batch_size=4)
    before = module.model.weight.detach().clone()
    flags = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    pl.Trainer(max_epochs=1, accelerator="cpu", enable_model_summary=False, **flags).fit(module)
    # Two steps of one size each, in whatever direction.
    steps = {round(abs(each), 5) for each in (module.model.weight - before).flatten().tolist()}
    assert steps <= {0.0, 0.2}
    assert steps != {0.0}


@pytest.mark.parametrize("step", ["self, grads", "self, *, grads"])
def test_an_optimizer_whose_step_needs_more_is_marked(step, tmp_path):
    changes = ("class Trial(", OWN.format(step)), ("torch.optim.SGD(self", "Own(self")
    assert NONE.format("Own") in rewritten(tmp_path, trial(*changes))


def test_an_optimizer_that_has_a_closure_of_its_own_is_marked(tmp_path):
    body = OWN.format("self").replace('"""Steps', 'closure = 1\n        """Steps')
    change = ("torch.optim.SGD(self", "Own(self")
    assert NONE.format("Own") in rewritten(tmp_path, trial(("class Trial(", body), change))


def test_a_scheduler_of_the_project_is_no_optimizer(tmp_path):
    warmup = "class Warmup(torch.optim.lr_scheduler.LambdaLR):\n    def step(self, epoch=None):\n"
    change = ("class Trial(", f"{warmup}        super().step(epoch)\n\n\nclass Trial(")
    after = rewritten(tmp_path, trial(change))
    assert "    def step(self, epoch=None):\n        super()" in after
    assert "automatic_optimization = False" not in after


MADE = (
    "        self.opt = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.1))\n"
)
STEP = "        self.context.step_optimizer(self.opt)\n"
TWO = (
    (
        MADE,
        (MADE + MADE.replace("self.opt", "self.other")).replace("lr=0.1", "lr=0.1, momentum=0.9"),
    ),
    (STEP, STEP + STEP.replace("self.opt", "self.other")),
    ("DataLoader([], batch_size=self", "DataLoader(torch.ones(8, 2), batch_size=self"),
)


def setting(tmp_path, line: str, used: str = "reset(self.opt)") -> str:
    header = f"import collections\n{HEADER}def reset(opt, it=0, machine=0):\n    {line}\n\n\n"
    again = ('        return {"loss"', f'        {used}\n        return {{"loss"')
    return rewritten(tmp_path, trial(*TWO, again, header=header))


@pytest.mark.parametrize(
    ("line", "is_both"),
    [
        ("opt.state = collections.defaultdict(dict)", True),
        ("it.state = collections.defaultdict(dict)", True),
        ("it.param_groups = it.param_groups[:1]", True),
        ("machine.state = 1", False),
        ("opt.param_groups[0]['lr'] = 1", False),
        ("opt.state.clear()", False),
        ("opt.optimizer.state = opt.state = {}", False),
    ],
)
def test_what_is_set_on_a_wrapper_is_set_on_its_optimizer(tmp_path, line, is_both):
    source = setting(tmp_path, line)
    assert "MIGRATE" not in source
    assert ("LightningOptimizer):\n" in source) is is_both
    assert ("import LightningOptimizer\n" in source) is is_both
    assert rewritten(tmp_path, source) == source


@pytest.mark.parametrize(
    ("line", "is_kept"), [("pass", True), ("opt.state = collections.defaultdict(dict)", False)]
)
def test_a_state_that_is_set_anew_is_what_the_next_step_has(tmp_path, line, is_kept):
    source = setting(tmp_path, line)
    names: dict[str, type[pl.LightningModule]] = {}
    exec(source, names)
    module = names["Trial"](global_batch_size=4)
    pl.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        limit_val_batches=0,
    ).fit(module)
    first, _ = module.optimizers(use_pl_optimizer=False)
    assert bool(first.state) is is_kept


def test_other_attributes_that_are_set_on_a_wrapper_are_spoken_of(tmp_path):
    made = setting(tmp_path, "pass", used="self.opt.warm = True")
    assert "train_batch sets warm of an optimizer, and Lightning's wrapper around it keeps" in made


STEPPER = (
    HEADER
    + """\
class Stepper:
    def __init__(self, context, optimizer, every=1):
        self.context = context
        self.sgd = optimizer

    def __call__(self):
        self.context.step_optimizer(self.sgd)


"""
)
STEP = "self.context.step_optimizer(self.opt)"


def test_lightning_counts_the_steps_of_an_object_that_keeps_an_optimizer(tmp_path):
    changes = (
        (f"context.wrap_optimizer({PLAIN})", f"context.wrap_optimizer({PLAIN})\n{'':8}{{}}"),
        (STEP, "self.stepper()"),
    )
    source = trial(*changes, header=STEPPER)
    made = rewritten(tmp_path, source.replace("{}", "self.stepper = Stepper(context, self.opt)"))
    assert "MIGRATE" not in made
    found: dict[str, Any] = {}
    exec(compile(made, "made", "exec"), found)
    quiet = dict.fromkeys(["logger", "enable_checkpointing", "enable_progress_bar"], False)
    runner = pl.Trainer(accelerator="cpu", max_steps=3, enable_model_summary=False, **quiet)
    data = torch.utils.data.DataLoader(torch.ones(8, 2))
    runner.fit(found["Trial"](global_batch_size=4), data, data)
    assert runner.global_step == 3


def test_an_object_in_a_list_that_keeps_an_optimizer_is_marked(tmp_path):
    change = (
        f"context.wrap_optimizer({PLAIN})",
        f"context.wrap_optimizer({PLAIN})\n{'':8}self.all = [Stepper(context, self.opt)]",
    )
    source = trial(change, (STEP, "self.all[0]()"), header=STEPPER)
    assert "# MIGRATE: Lightning counts no steps of what Stepper keeps" in rewritten(
        tmp_path, source
    )

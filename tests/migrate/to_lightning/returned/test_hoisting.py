from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch.utils.data import DataLoader

from det_compat.migrate.migration import migrate
from tests.migrate.rewriting import HEADER, method, rewritten, trial

OPT = "self.opt = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.1))"


def test_what_a_function_wraps_is_found_where_it_is_kept(tmp_path):
    made_by = HEADER + (
        "def made(context, model):\n"
        "    opt = torch.optim.SGD(model.parameters(), lr=0.1)\n"
        "    return context.wrap_optimizer(opt)\n\n\n"
    )
    change = (OPT, "self.opt = made(context, self.model)")
    made = rewritten(tmp_path, trial(change, header=made_by))
    assert "    return opt\n" in made
    assert method(made, "configure_optimizers").endswith("return made(self, self.model)")
    assert "MIGRATE" not in made


def test_what_a_function_may_wrap_is_stepped_if_it_is_there(tmp_path):
    made_by = HEADER + (
        "def made(context, opt, decays):\n"
        "    if not decays:\n        return None\n"
        "    decay = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)\n"
        "    return context.wrap_lr_scheduler(decay, LRScheduler.StepMode.STEP_EVERY_BATCH)\n\n\n"
    )
    change = (OPT, f"{OPT}\n        self.decay = made(context, self.opt, True)")
    made = rewritten(tmp_path, trial(change, header=made_by))
    assert "MIGRATE" not in made
    assert "None:\n        return {\n" in method(made, "configure_optimizers")
    assert "    decay = made(self, opt, True)\n" in method(made, "configure_optimizers")


WRAPS = "opt = self.context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.1))"
DECAYS = (
    "decay = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)\n"
    "        self.decay = self.context.wrap_lr_scheduler(decay, LRScheduler.StepMode.MANUAL_STEP)"
)


@pytest.mark.parametrize(
    ("call", "lines"),
    [
        ("self.opt = self.made()", [WRAPS, DECAYS, "return opt"]),
        ("self.opt, lr = self.made()", [WRAPS, "return opt, 0.1"]),
        (
            "self.opt, lr = self.made()",
            [WRAPS.replace("opt =", "self.sgd ="), "return self.sgd, 1"],
        ),
        ("made = self.made()\n        self.opt = made", [WRAPS, "return opt"]),
        (
            "self.opt = self.made()",
            ["return self.more()\n\n    def more(self):", WRAPS, "return opt"],
        ),
        (
            "self.opt = self.made()",
            [
                "opt = self.more()\n        " + DECAYS,
                "return opt\n\n    def more(self):",
                WRAPS,
                "return opt",
            ],
        ),
    ],
)
def test_lightning_counts_the_steps_of_what_a_method_wraps_and_returns(call, lines, tmp_path):
    made_by = "".join(f"        {line}\n" for line in lines)
    source = trial((OPT, f"{call}\n\n    def made(self):\n{made_by.rstrip()}"))
    text = rewritten(tmp_path, source)
    assert "MIGRATE" not in text
    made: dict[str, Any] = {}
    exec(compile(text, "made", "exec"), made)
    quiet = dict.fromkeys(["logger", "enable_checkpointing", "enable_progress_bar"], False)
    runner = pl.Trainer(accelerator="cpu", max_steps=3, enable_model_summary=False, **quiet)
    runner.fit(
        made["Trial"](global_batch_size=4),
        DataLoader(torch.ones(8, 2)),
        DataLoader(torch.ones(4, 2)),
    )
    assert runner.global_step == 3


@pytest.mark.parametrize(
    "kept",
    [
        "self.model, self.opt = part(context, torch.nn.Linear(2, 1))",
        "self.model, self.opt = torch.nn.Linear(2, 1), None\n"
        "        self.opt, self.n = sgd(context, self.model), 1",
    ],
)
def test_what_a_function_has_of_another_is_wrapped_where_it_is_kept(kept, tmp_path):
    makers = HEADER + (
        "def sgd(ctx, net):\n"
        "    return ctx.wrap_optimizer(torch.optim.SGD(net.parameters(), lr=0.1))\n\n\n"
        "def part(context, net):\n"
        "    net = context.wrap_model(net)\n    return net, sgd(context, net)\n\n\n"
    )
    if "part(" not in kept:
        makers = makers[: makers.index("def part")]
    model = "self.model = context.wrap_model(torch.nn.Linear(2, 1))\n        "
    made = rewritten(tmp_path, trial((model, ""), (OPT, kept), header=makers))
    assert "MIGRATE" not in made and "self.opt" in made


def test_an_optimizer_that_lightning_does_not_count_is_marked(tmp_path):
    made_by = f'        {WRAPS}\n        return {{"opt": opt}}'
    call = 'self.opt = self.made()["opt"]\n\n    def made(self):\n'
    text = rewritten(tmp_path, trial((OPT, f"{call}{made_by}")))
    assert "# MIGRATE: self.opt is stepped, and Lightning counts the steps of what" in text


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_a_lambda_that_wraps_is_a_function(kind, tmp_path):
    made_by = f"make = lambda m, lr: context.wrap_optimizer(torch.optim.{kind}(m.parameters(), lr))"
    more = "self.other = context.wrap_model(torch.nn.Linear(1, 1))"
    calls = "self.opt, self.more = make(self.model, 0.1), make(self.other, 0.2)"
    made = rewritten(tmp_path, trial((OPT, f"{more}\n        {made_by}\n        {calls}")))
    assert "MIGRATE" not in made and "lambda" not in made
    assert "def make(m, lr):\n            return torch.optim" in made
    assert method(made, "configure_optimizers").endswith("return [opt, more]")


def test_what_a_function_wraps_for_an_object_is_found_where_that_is_kept(tmp_path):
    source = HEADER + (
        "def made(context, model):\n"
        "    return context.wrap_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))\n\n\n"
        "class Engine:\n    def __init__(self, context, model):\n"
        "        self.context = context\n        self.opt = made(context, model)\n\n"
        "    def step(self):\n        self.context.step_optimizer(self.opt)\n\n\n"
    )
    changes = (
        (OPT, "self.engine = Engine(context, self.model)"),
        ("self.context.step_optimizer(self.opt)", "self.engine.step()"),
    )
    made = rewritten(tmp_path, trial(*changes, header=source))
    assert "MIGRATE" not in made
    assert method(made, "configure_optimizers").endswith("return self.engine.opt")


MAKERS = """\
import torch
from determined.pytorch import LRScheduler


def setup(context, model):
    opt = context.wrap_optimizer(torch.optim.SGD(model.parameters(), lr=context.get_hparam("lr")))
    decay = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)
    return opt, context.wrap_lr_scheduler(decay, LRScheduler.StepMode.STEP_EVERY_EPOCH)
"""
SETUP = "self.opt, self.decay = makers.setup(context, self.model)"


@pytest.mark.parametrize(
    ("header", "call", "is_seen"),
    [
        ("import makers\n", SETUP, True),
        ("from lib import makers\n", SETUP, True),
        ("from makers import setup\n", SETUP.replace("makers.", ""), True),
        ("from makers import *\n", SETUP.replace("makers.", ""), True),
        ("from others import *\n", SETUP.replace("makers.", ""), False),
        ("from lib import other as makers\n", SETUP, False),
        ("import makers\n", SETUP.replace("self.decay", "decay"), False),
        ("import makers\n", f"{SETUP}\n        print(makers.setup(context, self.model))", False),
    ],
)
def test_what_a_function_of_another_file_wraps_is_kept_by_its_callers(
    tmp_path, header, call, is_seen
):
    (tmp_path / "makers.py").write_text(MAKERS)
    trial_file = rewritten(tmp_path, header + trial((OPT, call)))
    made = method(trial_file, "configure_optimizers") if "def configure" in trial_file else ""
    assert ('"lr_scheduler": {"scheduler": decay, "interval": "epoch"}' in made) == is_seen
    (makers,) = [f for f in migrate([str(tmp_path)], "lightning").files if f.path.stem == "makers"]
    assert (b"# MIGRATE: configure_optimizers must return" not in makers.after) == is_seen
    assert b"wrap_" not in makers.after


HELPER = """\
import torch


class Optim:
    def __init__(self, context, model):
        self.context = context
        self.opt = context.wrap_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
        self.head = context.wrap_model(torch.nn.Linear(1, 1))
"""


@pytest.mark.parametrize(
    ("line", "is_seen"),
    [
        ("self.optim = Optim(context, self.model)", True),
        # What another attribute keeps, too, would not be the optimizer that Lightning counts.
        ("self.optim = Optim(context, self.model)\n        self.opt = self.optim.opt", False),
        ("optim = Optim(context, self.model)", False),
        ("self.optim = [Optim(context, self.model) for _ in range(2)]", False),
    ],
)
def test_what_an_object_of_a_trial_wraps(line, is_seen, tmp_path):
    (tmp_path / "optim.py").write_text(HELPER)
    changes = ((OPT, line), ("step_optimizer(self.opt)", "step_optimizer(self.optim.opt)"))
    header = f"from optim import Optim\n{HEADER}"
    made = rewritten(tmp_path, trial(*changes, header=header))
    result = migrate([str(tmp_path)], "lightning")
    assert (result.marks == 0) == is_seen
    if is_seen:
        assert method(made, "configure_optimizers").endswith("return self.optim.opt")
        shown = 'self.add_module("optim_head", self.optim.head)  # which Lightning knows'
        assert shown in method(made, "__init__")
    else:
        marks = [f.after.decode() for f in result.files if f.path.name == "optim.py"]
        assert "Lightning must be given this model" in marks[0]


@pytest.mark.parametrize("other", [None, "self.spare = self.net()"])
def test_a_model_that_a_method_returns_wrapped_is_the_one_that_validations_evaluate(
    other, tmp_path
):
    net = (
        "    def net(self):\n        self.teacher = load()\n        return {}\n\n"
        "    def train_batch("
    )
    changes = [
        ("import torch\n", "import torch\nfrom library import load\n"),
        ("context.wrap_model(torch.nn.Linear(2, 1))", "self.net()"),
        ("self.model(batch).sum()}", "self.model(self.teacher(batch)).sum()}"),
        ("    def train_batch(", net.format("self.context.wrap_model(load())")),
    ]
    source = trial(*changes)
    if other is not None:
        # The method of another class has the same name, and wraps nothing.
        changes[-1] = ("    def train_batch(", net.format("load()"))
        changes[1] = (changes[1][0], f"context.wrap_model(load())\n        {other}")
        source += "\n\n" + trial(*changes, header="import torch\n").replace("Trial(", "Other(", 1)
    made = rewritten(tmp_path, source)
    last = made.partition("class Other(")[2] or made
    # Where one of that name wraps nothing, a call does not say which it is: there is a comment.
    assert ("put all models into evaluation mode" in made) == (other is not None)
    assert method(last, "on_validation_model_eval").endswith("\n    self.model.eval()")


OPTIONAL = """
        self.decay = None
        if context.get_hparam("decays"):
            decay = torch.optim.lr_scheduler.ExponentialLR(self.opt, 0.9)
            self.decay = context.wrap_lr_scheduler(decay, LRScheduler.StepMode.STEP_EVERY_EPOCH)
"""


@pytest.mark.parametrize(
    ("old", "new", "is_seen"),
    [
        ("self.decay = None", "self.decay = None", True),
        # There may be no such attribute.
        ("self.decay = None", "pass", False),
        ("if context.get_hparam", "for _ in context.get_hparam", False),
    ],
)
def test_what_an_object_of_a_trial_may_wrap(old, new, is_seen, tmp_path):
    helper = HELPER.replace(
        "import torch\n", "import torch\nfrom determined.pytorch import LRScheduler\n"
    )
    (tmp_path / "optim.py").write_text(helper + OPTIONAL.lstrip("\n").replace(old, new))
    changes = (
        (OPT, "self.optim = Optim(context, self.model)"),
        ("step_optimizer(self.opt)", "step_optimizer(self.optim.opt)"),
    )
    made = rewritten(tmp_path, trial(*changes, header=f"from optim import Optim\n{HEADER}"))
    assert (migrate([str(tmp_path)], "lightning").marks == 0) == is_seen
    if is_seen:
        made = method(made, "configure_optimizers")
        assert 'if getattr(self.optim, "decay", None) is not None:' in made


_MODE = """
        every_batch = self.hp["every"] == "batch"
        mode = StepMode.STEP_EVERY_BATCH if every_batch{0} else StepMode.STEP_EVERY_EPOCH
        return self.context.wrap_lr_scheduler(
            torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9), step_mode=mode
        )
"""


@pytest.mark.parametrize(
    ("more", "batch", "epoch"),
    [
        (
            "",
            'interval = "step" if self.hp["every"] == "batch" else "epoch"',
            '"interval": interval',
        ),
        # What only the method knows is kept with the scheduler.
        (
            " or optimizer.x",
            'self.sched_step_mode in ("STEP_EVERY_BATCH", ',
            'self.sched_step_mode == "STEP_EVERY_EPOCH":',
        ),
    ],
)
def test_a_method_wraps_with_what_its_object_knows(more, batch, epoch, tmp_path):
    source = trial(
        ("lr=0.1))\n", "lr=0.1))\n        self.sched = self.make(self.opt)\n"),
        ("self.context = context\n", "self.context = context\n        self.hp = {'every': 'x'}\n"),
        (
            "    def build_training",
            f"    def make(self, optimizer):{_MODE.format(more)}\n    def build_training",
        ),
        ("class Trial", "StepMode = LRScheduler.StepMode\n\n\nclass Trial"),
    )
    made = rewritten(tmp_path, source)
    assert "must be stepped" not in made
    hook = method(made, "training_step" if more else "configure_optimizers")
    assert batch in hook
    assert epoch in hook
    if not more:
        # What only said when to step is idle.
        assert "every_batch" not in made
        assert "mode" not in method(made, "make")


_SGD, _ADAM = (f"torch.optim.{name}(self.model.parameters())" for name in ("SGD", "Adam"))
_BRANCHES = """
        if self.context.get_hparam("kind") == "sgd":
            {0}self.context.wrap_optimizer({1})
        {2}
"""


@pytest.mark.parametrize(
    ("make", "returned", "is_seen"),
    [
        (
            ("return ", f"elif 1:\n            return self.context.wrap_optimizer({_ADAM})"),
            "",
            True,
        ),
        (("return ", f"return self.context.wrap_optimizer({_ADAM})"), "", True),
        (
            ("opt = ", f"else:\n            opt = self.context.wrap_optimizer({_ADAM})"),
            "return opt",
            True,
        ),
        # Not every one is wrapped.
        (("return ", f"return {_ADAM}"), "", False),
        (("opt = ", f"else:\n            opt = {_ADAM}"), "return opt", False),
        (("return ", f"return self.context.wrap_optimizer({_ADAM}), 1"), "", False),
    ],
)
def test_a_method_that_wraps_in_each_branch(make, returned, is_seen, tmp_path):
    body = _BRANCHES.format(make[0], _SGD, make[1])
    wrapping = f"    def make(self):{body}        {returned}\n\n    def build_training"
    made = rewritten(
        tmp_path, trial((OPT, "self.opt = self.make()"), ("    def build_training", wrapping))
    )
    assert ("MIGRATE" not in made) == is_seen
    assert "wrap_optimizer" not in made
    assert "return self.make()" in made or not is_seen


DECIDING = """\
import torch
from determined.pytorch import LRScheduler


def make(context, opt):
    if context.get_hparam("kind") == "step":
        sched = torch.optim.lr_scheduler.StepLR(opt, 1)
        mode = LRScheduler.StepMode.STEP_EVERY_EPOCH
    else:
        sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)
        mode = LRScheduler.StepMode.STEP_EVERY_BATCH
    return context.wrap_lr_scheduler(sched, step_mode=mode)
"""


@pytest.mark.parametrize(
    ("call", "old", "new", "is_seen"),
    [
        ("self.sched = lib.make(context, self.opt)", "", "", True),
        ("sched = lib.make(context, self.opt)", "", "", False),
        ("self.sched = [lib.make(context, self.opt)]", "", "", False),
        # One of several kinds of returns, of which the caller would have to know.
        (
            "self.sched = lib.make(context, self.opt)",
            "    else:\n",
            "    else:\n        return opt\n",
            False,
        ),
    ],
)
def test_a_function_hands_on_the_step_mode_that_it_decides(call, old, new, is_seen, tmp_path):
    (tmp_path / "lib.py").write_text(DECIDING.replace(old, new) if old else DECIDING)
    made = rewritten(
        tmp_path, trial((OPT, f"{OPT}\n        {call}"), header=f"import lib\n{HEADER}")
    )
    result = migrate([str(tmp_path)], "lightning")
    lib = next(f.after.decode() for f in result.files if f.path.name == "lib.py")
    assert (result.marks == 0) == is_seen
    assert ("    return sched, mode\n" in lib) == is_seen
    if is_seen:
        assert method(made, "__init__").endswith(
            "self.sched, self.sched_step_mode = lib.make(self, self.opt)"
        )
        assert '        mode = "STEP_EVERY_EPOCH"\n' in lib
        chosen = 'interval = "epoch" if self.sched_step_mode == "STEP_EVERY_EPOCH" else "step"'
        assert chosen in method(made, "configure_optimizers")


GIVEN = """\
from determined.pytorch import LRScheduler
from torch.optim.lr_scheduler import ExponentialLR, StepLR


def make(context, opt, mode):
    return context.wrap_lr_scheduler(StepLR(opt, 1), step_mode=mode)
"""
APART = """\
from determined.pytorch import LRScheduler
from torch.optim.lr_scheduler import ExponentialLR, StepLR


def make(context, opt, kind):
    if kind == "step":
        return context.wrap_lr_scheduler(StepLR(opt, 1), LRScheduler.StepMode.STEP_EVERY_EPOCH)
    return context.wrap_lr_scheduler(ExponentialLR(opt, 1), LRScheduler.StepMode.STEP_EVERY_BATCH)
"""


@pytest.mark.parametrize(
    ("lib", "given", "interval"),
    [
        (
            GIVEN,
            "LRScheduler.StepMode.STEP_EVERY_EPOCH if kind else "
            "LRScheduler.StepMode.STEP_EVERY_BATCH",
            "epoch",
        ),
        (APART, "kind", "epoch"),
        (APART, "'other'", "step"),
    ],
)
def test_a_function_that_is_given_the_mode_or_wraps_in_each_branch(lib, given, interval, tmp_path):
    (tmp_path / "lib.py").write_text(lib)
    call = f"kind = 'step'\n        self.sched = lib.make(context, self.opt, {given})"
    made = rewritten(
        tmp_path, trial((OPT, f"{OPT}\n        {call}"), header=f"import lib\n{HEADER}")
    )
    result = migrate([str(tmp_path)], "lightning")
    assert result.marks == 0
    own = next(f.after.decode() for f in result.files if f.path.name == "lib.py")
    library = ModuleType("lib")
    exec(own, library.__dict__)
    names: dict[str, Any] = {"lib": library}
    exec(made.replace("import lib\n", ""), names)
    found = names["Trial"](global_batch_size=2).configure_optimizers()
    assert found["lr_scheduler"]["interval"] == interval


CHOOSING = """\
from determined.pytorch import LRScheduler


def make(context, opt):
    kind = context.get_hparams().get("kind")
    if kind is None:
        return{}
    mode = LRScheduler.StepMode.STEP_EVERY_EPOCH if kind else LRScheduler.StepMode.STEP_EVERY_BATCH
    return context.wrap_lr_scheduler(opt.schedule(), step_mode=mode)
"""


@pytest.mark.parametrize("none", [" None", ""])
def test_a_function_hands_on_that_there_is_no_scheduler(none, tmp_path):
    (tmp_path / "lib.py").write_text(CHOOSING.format(none))
    call = "self.sched = lib.make(context, self.opt)"
    made = rewritten(
        tmp_path, trial((OPT, f"{OPT}\n        {call}"), header=f"import lib\n{HEADER}")
    )
    result = migrate([str(tmp_path)], "lightning")
    lib = next(f.after.decode() for f in result.files if f.path.name == "lib.py")
    assert result.marks == 0
    assert "        return None, None\n" in lib
    assert "    return opt.schedule(), mode\n" in lib
    assert "self.sched, self.sched_step_mode = lib.make(self, self.opt)" in made
    chosen = 'self.sched_step_mode == "STEP_EVERY_EPOCH"'
    assert chosen in method(made, "configure_optimizers")


def test_what_a_function_of_a_function_returns_is_nothing_of_its_own(tmp_path):
    made_by = HEADER + (
        "def made(context, opt):\n"
        "    def factor(step):\n"
        "        if step < 2:\n            return 1\n"
        "        return 0.5\n\n"
        "    decay = torch.optim.lr_scheduler.LambdaLR(opt, factor)\n"
        "    return context.wrap_lr_scheduler(decay, LRScheduler.StepMode.STEP_EVERY_BATCH)\n\n\n"
    )
    change = (OPT, f"{OPT}\n        self.decay = made(context, self.opt)")
    made = rewritten(tmp_path, trial(change, header=made_by))
    assert "MIGRATE" not in made
    assert '{"scheduler": decay, "interval": "step"}' in method(made, "configure_optimizers")


def test_a_mixin_wraps_with_what_the_context_says(tmp_path):
    mixin = """
class Poly:
    def add_poly(self, optimizer):
        mode = self.context.get_hparam("mode")
        decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        return self.context.wrap_lr_scheduler(
            decay,
            LRScheduler.StepMode.STEP_EVERY_BATCH
            if mode == "batch"
            else LRScheduler.StepMode.STEP_EVERY_EPOCH,
        )


"""
    change = (OPT, f"{OPT}\n        self.decay = self.add_poly(self.opt)")
    mixed = ("class Trial(PyTorchTrial)", "class Trial(Poly, PyTorchTrial)")
    made = rewritten(tmp_path, trial(change, mixed, header=HEADER + mixin))
    assert "MIGRATE" not in made
    assert "        return decay\n" in made
    assert 'if self.hparams.mode == "batch"' in made

from __future__ import annotations

from typing import Any

import pytest
import pytorch_lightning as pl

from tests.migrate.rewriting import HEADER, method, rewritten, trial

SCHEDULER = """\
lr=0.1))
        self.scheduler = context.wrap_lr_scheduler(
            torch.optim.lr_scheduler.StepLR(self.opt, 2),
            step_mode=LRScheduler.StepMode.{0},
        )
"""


def scheduled(tmp_path, mode: str) -> str:
    return rewritten(tmp_path, trial(("lr=0.1))\n", SCHEDULER.format(mode))))


def test_optimizers_move(tmp_path):
    made = rewritten(tmp_path, trial())
    assert method(made, "configure_optimizers") == (
        "def configure_optimizers(self):\n"
        "    return torch.optim.SGD(self.model.parameters(), lr=0.1)"
    )
    assert "SGD" not in method(made, "__init__")


def test_schedulers_by_interval(tmp_path):
    made = method(scheduled(tmp_path, "STEP_EVERY_EPOCH"), "configure_optimizers")
    assert "    scheduler = torch.optim.lr_scheduler.StepLR(opt, 2)\n" in made
    assert '"lr_scheduler": {"scheduler": scheduler, "interval": "epoch"},' in made
    assert '"interval": "step"' in scheduled(tmp_path, "STEP_EVERY_BATCH")


def test_schedulers_that_the_trial_steps_are_manual(tmp_path):
    at_times = "        if batch_idx % 2:\n            self.scheduler.step()\n"
    step = ('        return {"loss"', f'{at_times}        return {{"loss"')
    made = rewritten(tmp_path, trial(("lr=0.1))\n", SCHEDULER.format("MANUAL_STEP")), step))
    assert "automatic_optimization = False" in made
    assert "return [opt], [self.scheduler]" in made


def test_optimizers_that_init_uses_stay(tmp_path):
    made = rewritten(tmp_path, trial(("lr=0.1))\n", "lr=0.1))\n        print(self.opt)\n")))
    assert "self.opt = torch.optim.SGD" in method(made, "__init__")
    assert "return self.opt" in method(made, "configure_optimizers")


def test_locals_move_along(tmp_path):
    change = (
        "        self.opt = context.wrap_optimizer("
        "torch.optim.SGD(self.model.parameters(), lr=0.1))",
        "        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)\n"
        "        self.opt = context.wrap_optimizer(optimizer)",
    )
    assert method(rewritten(tmp_path, trial(change)), "configure_optimizers") == (
        "def configure_optimizers(self):\n"
        "    optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)\n"
        "    return optimizer"
    )


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ("(self, context, *, rate=0.1)", ""),
        ("(self, context)", "rate: float = 0.1"),
        ("(self, context)", "with torch.no_grad() as rate: pass"),
    ],
)
def test_locals_of_any_kind_are_known_where_an_optimizer_is_made(given, line, tmp_path):
    init = f"def __init__{given}:\n        {line or 'pass'}\n"
    change = ("def __init__(self, context):\n", init)
    # The result's own review marks names that nothing defines.
    assert "MIGRATE" not in rewritten(tmp_path, trial(change, ("lr=0.1", "lr=rate")))


def test_optimizers_in_a_list_are_left_to_the_reader(tmp_path):
    change = ("self.opt = context.wrap_optimizer(", "self.opts = list([context.wrap_optimizer(")
    source = trial(change, ("lr=0.1))\n", "lr=0.1))])\n"), ("(self.opt)", "(self.opts[0])"))
    made = rewritten(tmp_path, source)
    assert "# MIGRATE: configure_optimizers must return every optimizer" in made


def test_apex_is_lightnings_precision(tmp_path):
    change = (
        "lr=0.1))\n",
        "lr=0.1))\n"
        "        self.model, self.opt = context.configure_apex_amp(self.model, self.opt)\n",
    )
    made = rewritten(tmp_path, trial(change))
    assert '# MIGRATE: mixed precision is pl.Trainer(precision="16-mixed"), or' in made
    assert "self.model, self.opt = (self.model, self.opt)" in made


def test_optimizers_that_methods_of_init_use_stay(tmp_path):
    change = ("lr=0.1))\n", "lr=0.1))\n        self.warm_up()\n")
    helper = "    def warm_up(self):\n        print(self.opt)\n\n    def evaluate_batch"
    made = rewritten(tmp_path, trial(change, ("    def evaluate_batch", helper)))
    assert "self.opt = torch.optim.SGD" in method(made, "__init__")
    assert "return self.opt" in method(made, "configure_optimizers")


@pytest.mark.parametrize(
    ("step", "helper", "others", "asks"),
    [
        ("self.opt.step()", "", "", True),
        ("self.go()", "self.opt.step()", "", True),
        ("self.opt.step(self.go)", "return self.opt.param_groups", "", True),
        ("self.opt.step()\n        self.go()", "return self.opt.own_name", "", True),
        # A variable of this name is something else.
        ("opt = self.opt\n        opt.step()", "", "", False),
        ("self.go()", "self.opt.step()", "    def checked(self, batch): self.go()", False),
        ("self.go()", "self.opt.step()", "def use(made):\n    made.go()", False),
        ("self.opt.step()", "", "def use(made):\n    made.opt.step()", False),
        ("for each in self.context.optimizers: each.step()", "", "", False),
        # These ask another class for what it has.
        (
            "self.go()",
            "self.opt.step()",
            "class Other:\n    def go(self): pass\n\n    def use(made):\n        made.go()",
            True,
        ),
    ],
)
def test_raw_steps_are_counted(step, helper, others, asks, tmp_path):
    helping = f"    def go(self):\n        {helper}\n\n    def evaluate_batch"
    changes = [("self.context.step_optimizer(self.opt)", step)]
    changes += [("    def evaluate_batch", helping)] if helper else []
    if others.startswith(" "):
        changes.append(('return {"error"', 'self.checked(batch)\n        return {"error"'))
    made = rewritten(tmp_path, f"{trial(*changes)}\n{others}\n")
    assert ("self.opt = self.optimizers()" in made) is not asks
    assert "opt = self.optimizers()\n" in made and "MIGRATE" not in made


def test_what_is_wrapped_and_not_kept(tmp_path):
    made = "torch.optim.lr_scheduler.StepLR(self.opt, 1)"
    scheduler = f"context.wrap_lr_scheduler({made}, LRScheduler.StepMode.STEP_EVERY_EPOCH)"
    made = rewritten(tmp_path, trial(("lr=0.1))\n", f"lr=0.1))\n        {scheduler}\n")))
    assert "    lr_scheduler = torch.optim.lr_scheduler.StepLR(opt, 1)\n" in method(
        made, "configure_optimizers"
    )


HIERARCHY = """\

class Child(Trial):
    def __init__(self, context):
        super().__init__(context)
        self.other = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.2))

    def train_batch(self, batch, epoch_idx, batch_idx):
        return super().train_batch(batch, epoch_idx, batch_idx)
"""


def test_classes_of_a_hierarchy_keep_their_methods(tmp_path):
    made = rewritten(tmp_path, trial() + HIERARCHY)
    assert "super().__init__(**hparams)" in made
    assert "return [self.opt, self.other]" in made
    assert "return super().train_batch(batch, epoch_idx, batch_idx)" in made
    assert made.count("def training_step(") == 1


def test_one_of_two_optimizers_is_one(tmp_path):
    wrap = "context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.1))"
    sgd = f"        self.opt = {wrap}\n"
    adam = sgd.replace("SGD", "Adam")
    made = rewritten(
        tmp_path, trial((sgd, f"        if True:\n    {sgd}        else:\n    {adam}"))
    )
    assert "MIGRATE" not in made
    assert "automatic_optimization" not in made
    assert method(made, "configure_optimizers").endswith("    return opt")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("print(self.context.models[0])", "print(self.model)"),
        ("for model in self.context.models:", "for model in [self.model]:"),
        (
            "print(self.context.optimizers[0].param_groups)",
            "print(self.optimizers().param_groups)",
        ),
    ],
)
def test_what_a_context_lists_are_attributes(before, after, tmp_path):
    lines = before if before.startswith("print") else f"{before}\n            print(model)"
    change = ("loss = self.model(batch).sum()", f"{lines}\n        loss = self.model(batch).sum()")
    made = rewritten(tmp_path, trial(change))
    assert f"        {after}\n" in made
    assert "MIGRATE" not in made


WARMUP = """\
class Warmup:
    def __init__(self, optimizer):
        self.optimizer_ = optimizer

    def step(self):
        pass


class Trial"""


def test_a_scheduler_of_ones_own_is_not_lightnings(tmp_path):
    before = """\
lr=0.1))
        self.warmup = context.wrap_lr_scheduler(
            Warmup(self.opt), LRScheduler.StepMode.STEP_EVERY_BATCH
        )
"""
    made = rewritten(tmp_path, trial(("class Trial", WARMUP), ("lr=0.1))\n", before)))
    assert method(made, "configure_optimizers").endswith("    return opt")
    assert method(made, "training_step").endswith("    self.warmup.step()")
    assert "# MIGRATE: Lightning saves no state of a scheduler that does not derive" in made


def test_a_mode_that_a_hyperparameter_chooses_is_an_interval(tmp_path):
    before = """\
lr=0.1))
        mode = (
            LRScheduler.StepMode.STEP_EVERY_BATCH
            if context.get_hparam("often")
            else LRScheduler.StepMode.STEP_EVERY_EPOCH
        )
        self.scheduler = context.wrap_lr_scheduler(
            torch.optim.lr_scheduler.StepLR(self.opt, 2), step_mode=mode
        )
"""
    made = rewritten(tmp_path, trial(("lr=0.1))\n", before)))
    hook = method(made, "configure_optimizers")
    assert '    interval = "step" if self.hparams.often else "epoch"\n' in hook
    assert '"interval": interval}' in hook
    assert "MIGRATE" not in made
    assert "determined" not in made


def test_comments_on_wrapping_go(tmp_path):
    line = "        self.model = context.wrap_model"
    made = rewritten(
        tmp_path, trial((line, f"        # Wrap the model.\n        # It is small.\n{line}"))
    )
    assert "Wrap" not in made
    assert "        # It is small.\n        self.model = torch.nn.Linear(2, 1)" in made


def test_comments_on_wrapping_go_with_what_moves(tmp_path):
    line = "        self.opt = context.wrap_optimizer("
    source = trial(
        (line, f"        # wrap optimizer\n        sgd = {SGD}\n{line}"), (f"({SGD}", "(sgd")
    )
    made = method(rewritten(tmp_path, source), "configure_optimizers")
    assert made == f"def configure_optimizers(self):\n    sgd = {SGD}\n    return sgd"


SGD = "torch.optim.SGD(self.model.parameters(), lr=0.1)"


@pytest.mark.parametrize(
    ("known", "name"),
    [
        ("def rate(n):\n            return 1", "configure_optimizers"),
        ("def rate(n):\n            return 1\n\n        print(rate)", "__init__"),
        ("from math import ceil as rate", "__init__"),
    ],
)
def test_a_function_of_init_moves_with_what_needs_it_alone(known, name, tmp_path):
    made = f"        {known}\n\n        self.s = context.wrap_lr_scheduler("
    made += "torch.optim.lr_scheduler.LambdaLR(self.opt, rate), LRScheduler.StepMode.MANUAL_STEP)\n"
    made = rewritten(tmp_path, trial(("lr=0.1))\n", f"lr=0.1))\n{made}")))
    assert "LambdaLR" in method(made, name)
    assert "MIGRATE" not in made


LOWERING = """\
from determined.pytorch import PyTorchCallback


class Lowering(PyTorchCallback):
    def __init__(self, trial):
        self.trial = trial
        {0}

    def on_validation_end(self, metrics):
        self.trial.opt.param_groups[0]["lr"] /= 2
"""
CALLBACKS = """\
    def build_callbacks(self):
        return {"low": Lowering(self)}

    def train_batch"""


@pytest.mark.parametrize("early", ["pass", "self.first = trial.opt"])
def test_what_another_file_asks_a_trial_for_stays(early, tmp_path):
    (tmp_path / "lowering.py").write_text(LOWERING.format(early))
    header = f"from lowering import Lowering\n{HEADER}"
    made = rewritten(tmp_path, trial(("    def train_batch", CALLBACKS), header=header))
    # Callbacks are made before configure_optimizers is called.
    assert "    self.opt = torch.optim.SGD" in method(made, "__init__")
    assert "return self.opt" in method(made, "configure_optimizers")
    assert "MIGRATE" not in made


def test_what_a_script_asks_a_trial_for_stays(tmp_path):
    (tmp_path / "look.py").write_text(
        "import model_def\ndef rate(trial):\n    return trial.opt.param_groups\n"
    )
    assert "    self.opt = torch.optim" in method(
        rewritten(tmp_path, trial()), "configure_optimizers"
    )


OPT = "self.opt = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.1))"


@pytest.mark.parametrize(
    "second",
    [
        "self.two = None\n        if has:\n            self.two = {}",
        "self.two = {} if has else None",
        "if has:\n            self.two = {}\n        else:\n            self.two = None",
    ],
)
@pytest.mark.parametrize("has", [True, False])
def test_an_optimizer_that_is_only_made_at_times_is_returned_then(tmp_path, second, has):
    two = "context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.2))"
    made = rewritten(
        tmp_path,
        trial(
            (f"{OPT}\n", f"{OPT}\n        has = {has}\n        {second.format(two)}\n"),
            ("step_optimizer(self.opt)", "step_optimizer(self.two)"),
        ),
    )
    assert "MIGRATE" not in made
    known: dict[str, Any] = {}
    exec(compile(made, "model_def.py", "exec"), known)
    module = known["Trial"](global_batch_size=4)
    found = module.configure_optimizers()
    assert found == ([module.opt, module.two] if has else [module.opt])
    module.optimizers = lambda: [*map(str, found)]
    module.on_train_start()
    assert [module.opt, module.two] == [str(found[0]), str(found[1]) if has else None]


def test_a_choice_of_two_optimizers_is_one(tmp_path):
    choice = f"""\
if x:
            {OPT}
        elif y:
            {OPT}
        else:
            raise ValueError"""
    made = rewritten(tmp_path, trial((OPT, choice)))
    assert method(made, "configure_optimizers").endswith("        raise ValueError\n    return opt")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(
            "(\n            torch.optim.SGD(\n                self.model.parameters(), lr=0.1\n"
            "            )\n        )\n",
            "        self.model.parameters(), lr=0.1\n    )",
            id="deeper than the wrapper",
        ),
        pytest.param(
            "(\n         torch.optim.SGD(\n            self.model.parameters(),\n"
            "            lr=0.1))\n",
            "        self.model.parameters(),\n        lr=0.1)",
            id="hardly deeper than the statement",
        ),
    ],
)
def test_what_stands_below_a_call_stays_deeper_than_its_statement(tmp_path, before, after):
    change = ("(torch.optim.SGD(self.model.parameters(), lr=0.1))\n", before)
    made = method(rewritten(tmp_path, trial(change)), "configure_optimizers")
    assert made.endswith(f"    return torch.optim.SGD(\n{after}")


def test_what_another_experiment_asks_of_its_own_changes_nothing(tmp_path):
    (tmp_path / "other.py").write_text("def rate(trainer):\n    return trainer.opt.param_groups\n")
    made = method(rewritten(tmp_path, trial()), "configure_optimizers")
    assert made.endswith("    return torch.optim.SGD(self.model.parameters(), lr=0.1)")


def test_optimizers_that_an_object_may_lack_are_counted(tmp_path):
    first = """self.parts = types.SimpleNamespace(opt=None)
        if context.get_hparam("two"):
            self.parts.opt = context.wrap_optimizer(torch.optim.SGD(self.model.parameters()))
        self.opt ="""
    made = rewritten(tmp_path, trial(("self.opt =", first), header=f"import types\n{HEADER}"))
    there = 'getattr(self.parts, "opt", None)'
    counted = f"    if {there} is not None:\n        self.parts.opt = found.pop(0)\n"
    assert counted in method(made, "on_train_start")
    assert there in method(made, "configure_optimizers")
    assert "MIGRATE" not in made


def test_optimizers_that_a_dict_may_lack_are_counted(tmp_path):
    first = """self.opts = {}
        if context.get_hparam("two"):
            self.opts["b"] = context.wrap_optimizer(torch.optim.SGD(self.model.parameters()))
        self.opts["a"] ="""
    made = rewritten(tmp_path, trial(("self.opt =", first), ("(self.opt)", '(self.opts["a"])')))
    counted = '    if "b" in self.opts:\n        self.opts["b"] = found.pop(0)\n'
    assert counted in method(made, "on_train_start")
    assert 'self.opts.get("b")' in method(made, "configure_optimizers")
    assert "MIGRATE" not in made


@pytest.mark.parametrize("has_plateau", [False, True])
def test_an_optimizer_that_is_put_into_a_dict_is_made_where_it_is_needed(has_plateau, tmp_path):
    old = "self.opt = context.wrap_optimizer("
    new = f'self.opts = {{}}\n        self.opts["a"] = {old.removeprefix("self.opt = ")}'
    changes = [(old, new), ("(self.opt)", '(self.opts["a"])')]
    if has_plateau:
        made = "torch.optim.lr_scheduler.ReduceLROnPlateau"
        end = "\n    def build_training"
        changes.append((end, f'        self.plateau = {made}(self.opts["a"])\n{end}'))
    source = rewritten(tmp_path, trial(*changes))
    assert "MIGRATE" not in source
    assert 'return self.opts["a"]' in method(source, "configure_optimizers")
    maker = "__init__" if has_plateau else "configure_optimizers"
    assert 'self.opts["a"] = torch.optim.SGD' in method(source, maker)
    assert "self.opts = {}" in method(source, "__init__")


def test_what_a_validation_needs_is_made_before_there_is_training(tmp_path):
    looked = (
        '        return {"error": self.model(batch).sum(), "lr": self.opt.param_groups[0]["lr"]}'
    )
    old = '        return {"error": self.model(batch).sum()}'
    made = rewritten(tmp_path, trial((old, looked)))
    assert "self.opt = torch.optim.SGD(" in method(made, "__init__")
    assert "return self.opt" in method(made, "configure_optimizers")


WRAPPED = (
    "        self.model = context.wrap_model(torch.nn.Linear(2, 1))\n"
    "        self.opt = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.1))\n"
)


@pytest.mark.parametrize(
    ("lines", "made"),
    [
        pytest.param(
            [
                "self.model = context.wrap_model(torch.nn.Linear(2, 1))",
                "self.opt = torch.optim.SGD(self.model.parameters(), lr=0.1)",
                "self.opt = context.wrap_optimizer(self.opt)",
            ],
            "(self):\n    return torch.optim.SGD(self.model.parameters(), lr=0.1)",
            id="what is wrapped has its name already",
        ),
        pytest.param(
            [
                "model = torch.nn.Linear(2, 1)",
                "opt = torch.optim.SGD(params=model.parameters(), lr=0.1)",
                "self.model = context.wrap_model(model)",
                "self.opt = context.wrap_optimizer(opt)",
            ],
            "opt = torch.optim.SGD(params=self.model.parameters(), lr=0.1)\n    return opt",
            id="the model is a variable",
        ),
        pytest.param(
            [
                "model = torch.nn.Linear(2, 1)",
                "self.model = context.wrap_model(model=model)",
                "self.opt = context.wrap_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))",
            ],
            "return torch.optim.SGD(self.model.parameters(), lr=0.1)",
            id="the model is given by name",
        ),
        pytest.param(
            [
                "model = torch.nn.Linear(2, 1)",
                "self.model = context.wrap_model(model)",
                "model = torch.nn.Linear(3, 1)",
                "self.opt = context.wrap_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))",
            ],
            "return self.opt",
            id="the variable is another model by then",
        ),
        pytest.param(
            [
                "self.model = context.wrap_model(torch.nn.Linear(2, 1))",
                "self.opt = torch.optim.SGD(self.model.parameters(), lr=0.1)",
                "print(self.opt)",
                "self.opt = context.wrap_optimizer(self.opt)",
            ],
            "return self.opt",
            id="something else needs it",
        ),
    ],
)
def test_what_init_makes_by_variables_moves(lines, made, tmp_path):
    text = "".join(f"        {line}\n" for line in lines)
    result = rewritten(tmp_path, trial((WRAPPED, text)))
    assert method(result, "configure_optimizers").endswith(made)
    assert "MIGRATE" not in result


def test_variables_that_move_are_returned_under_their_names(tmp_path):
    lines = """\
        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
        self.model = context.wrap_model(model)
        self.opt = context.wrap_optimizer(optimizer)
        self.by = context.wrap_lr_scheduler(scheduler, LRScheduler.StepMode.STEP_EVERY_EPOCH)
"""
    made = method(rewritten(tmp_path, trial((WRAPPED, lines))), "configure_optimizers")
    assert '"optimizer": optimizer,' in made
    assert '"scheduler": scheduler,' in made
    assert "opt =" not in made
    assert "by" not in made


def test_a_variable_that_is_two_optimizers_is_neither(tmp_path):
    lines = """\
        self.model = context.wrap_model(torch.nn.Linear(2, 1))
        made = torch.optim.SGD([self.model.weight], lr=0.1)
        self.opt = context.wrap_optimizer(made)
        made = torch.optim.SGD([self.model.bias], lr=0.1)
        self.other = context.wrap_optimizer(made)
"""
    step = "        self.context.step_optimizer(self.opt)\n"
    both = f"{step}{step.replace('opt)', 'other)')}"
    made = method(
        rewritten(tmp_path, trial((WRAPPED, lines), (step, both))), "configure_optimizers"
    )
    assert made.endswith("return [opt, other]")


@pytest.mark.parametrize("has_schedule", [True, False])
@pytest.mark.parametrize("is_local", [True, False])
def test_a_module_trains_again_with_the_optimizers_that_it_keeps(tmp_path, is_local, has_schedule):
    schedule = """
        self.schedule = context.wrap_lr_scheduler(
            torch.optim.lr_scheduler.StepLR(self.opt, 1), LRScheduler.StepMode.STEP_EVERY_EPOCH
        )
        self.rates = [group["lr"] for group in self.opt.param_groups]"""
    schedule = schedule if has_schedule else schedule[schedule.index("\n        self.rates") :]
    data = ("DataLoader([], batch", "DataLoader(list(torch.ones(8, 2)), batch")
    step = "self.opt.step()" if is_local else "opt = self.opt\n        opt.step()"
    steps = ("self.context.step_optimizer(self.opt)", step)
    made = rewritten(tmp_path, trial((OPT, OPT + schedule), data, steps))
    assert "MIGRATE" not in made and ("self.opt = self.optimizers()" in made) is not is_local
    known: dict[str, Any] = {"__name__": "made"}
    exec(made, known)
    module = known["Trial"](global_batch_size=4)
    loud = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
    quiet: dict[str, Any] = dict.fromkeys(loud, False)
    if is_local:
        # What an exception ended leaves them as they were.
        with pytest.raises(RuntimeError, match="in a callback"):
            pl.Trainer(max_epochs=1, callbacks=[_Failing()], accelerator="cpu", **quiet).fit(module)
    for epochs in (1, 2):
        trainer = pl.Trainer(max_epochs=1, accelerator="cpu", **quiet)
        trainer.fit(module)
        rate = trainer.optimizers[0].param_groups[0]["lr"]
        assert rate == pytest.approx(0.1 ** (1 + epochs if has_schedule else 1))
        assert trainer.global_step == 2


class _Failing(pl.Callback):
    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        raise RuntimeError("in a callback")


COUNTS = """\
    def rate(self):
        self.n += 1
        return 0.1 / self.n

    def build_training"""


@pytest.mark.parametrize(
    ("asks", "stays"),
    [
        ("self.rate()", True),
        ("next_rate()", True),
        ("rates.next()", True),
        # Nothing changes these.
        ("max(0.1, 0.2)", False),
        ('context.get_hparam("lr")', False),
    ],
)
def test_what_counts_its_calls_is_called_in_order(asks, stays, tmp_path):
    optimizer = f"self.opt = context.wrap_optimizer(torch.optim.SGD(params, lr={asks}))"
    lines = f"params = self.model.parameters()\n        {optimizer}\n        self.other = {asks}"
    count = ("self.context = context\n", "self.context = context\n        self.n = 0\n")
    source = trial(count, (OPT.strip(), lines), ("    def build_training", COUNTS))
    made = method(rewritten(tmp_path, source), "__init__")
    assert ("torch.optim.SGD(" in made) is stays


DRAWN = """\
def init(part):
    if isinstance(part, torch.nn.Linear):
        torch.nn.init.xavier_uniform_(part.weight)


def groups(model):
    model.apply(init)
    return model.parameters()


def plain(model):
    return model.parameters()


"""


@pytest.mark.parametrize(("makes", "stays"), [("groups", True), ("plain", False)])
def test_what_draws_in_the_project_is_called_in_order(makes, stays, tmp_path):
    lines = OPT.replace("self.model.parameters()", f"{makes}(self.model)")
    source = trial((OPT, lines), header=HEADER + DRAWN)
    made = method(rewritten(tmp_path, source), "__init__")
    assert ("torch.optim.SGD(" in made) is stays


def test_a_model_that_is_changed_by_its_other_name_is_changed(tmp_path):
    lines = """\
        net = torch.nn.Sequential(torch.nn.Linear(2, 1))
        self.model = context.wrap_model(net)
        self.opt = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.1))
        net.head = torch.nn.Linear(1, 1)
"""
    made = method(rewritten(tmp_path, trial((WRAPPED, lines))), "__init__")
    assert made.index("torch.optim.SGD(") < made.index("net.head =")


@pytest.mark.parametrize(
    ("changes", "stays"),
    [
        ("self.rates = [0.5]", True),
        ("self.rates.append(1)", True),
        ("self.rates[0] = 0.5", True),
        ("self.tune()", True),
        ("self.others = [0.5]", False),
    ],
)
@pytest.mark.parametrize("decorator", ["@property", "def other(self): ..."])
def test_what_a_method_asks_for_is_as_it_was(changes, stays, decorator, tmp_path):
    first = "self.first" if decorator == "@property" else "self.first()"
    optimizer = OPT.replace("lr=0.1", f"lr={first}")
    methods = f"""\
    {decorator}
    def first(self):
        return self.rates[0]

    def tune(self):
        self.rates = [0.5]

    def build_training"""
    rates = ("self.context = context\n", "self.context = context\n        self.rates = [0.1]\n")
    lines = (OPT, f"{optimizer}\n        {changes}")
    source = trial(rates, lines, ("    def build_training", methods))
    made = method(rewritten(tmp_path, source), "__init__")
    assert ("torch.optim.SGD(" in made) is stays

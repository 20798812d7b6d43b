from __future__ import annotations

import pytest

from tests.migrate.rewriting import HEADER, method, rewritten, trial

OPT = "self.opt = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.1))"


@pytest.mark.parametrize("kept", ["", "\n        self.rate = decay"])
def test_what_a_variable_holds_is_kept(kept, tmp_path):
    decay = (
        f"{OPT}\n        decay = context.wrap_lr_scheduler("
        "torch.optim.lr_scheduler.StepLR(self.opt, 2), LRScheduler.StepMode.STEP_EVERY_EPOCH)"
    )
    made = rewritten(tmp_path, trial((OPT, decay + kept)))
    name = "self.rate" if kept else "self.decay"
    assert f'"scheduler": {name}, "interval": "epoch"' in made
    assert "MIGRATE" not in made


@pytest.mark.parametrize(
    ("before", "returned"),
    [
        (
            "self.opts = {'a': context.wrap_optimizer(torch.optim.SGD(self.model.parameters()))}",
            "return self.opts['a']",
        ),
        (
            "self.opts = {}\n        for name in 'ab':\n            self.opts[name] = "
            "context.wrap_optimizer(torch.optim.SGD(self.model.parameters()))",
            "return [*self.opts.values()]",
        ),
        (
            "self.a, self.b = [context.wrap_optimizer(torch.optim.SGD(self.model.parameters())) "
            "for _ in 'ab']",
            "return [a, b]",
        ),
    ],
)
def test_optimizers_in_dicts_and_tuples(before, returned, tmp_path):
    made = rewritten(tmp_path, trial((OPT, before), ("self.opt)", "self.opts['a'])")))
    assert returned in method(made, "configure_optimizers")


def test_a_dict_of_models_is_a_module_dict(tmp_path):
    wrapped = "context.wrap_model(torch.nn.Linear(2, 1))"
    change = (f"self.model = {wrapped}", f"self.model = {{n: {wrapped} for n in 'ab'}}")
    made = rewritten(tmp_path, trial(change))
    assert "self.model = torch.nn.ModuleDict({n: torch.nn.Linear(2, 1) for n in 'ab'})" in made


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("self.opts = [{0} for _ in 'ab']", "self.opts = [*found] if isinstance(found, list)"),
        (
            "self.opts = {{n: {0} for n in 'ab'}}",
            "dict(zip(self.opts, found, strict=True))",
        ),
        ("self.a = {0}\n        self.b = {{n: {0} for n in 'ab'}}", "self.a, *found = self.opt"),
    ],
)
def test_steps_are_counted_of_whatever_keeps_optimizers(before, after, tmp_path):
    wrapped = "context.wrap_optimizer(torch.optim.SGD(self.model.parameters()))"
    changes = ((OPT, before.format(wrapped)), ("self.opt)", "self.opts['a'])"))
    assert after in method(rewritten(tmp_path, trial(*changes)), "on_train_start")


def test_a_branch_that_only_wrapped_goes(tmp_path):
    made = "context.wrap_model(torch.nn.Linear(2, 1))\n"
    branches = (
        "torch.nn.Linear(2, 1)\n        if made:\n            self.model = made(self.model)\n"
        "        else:\n            self.model = context.wrap_model(self.model)\n"
    )
    result = rewritten(tmp_path, trial((made, branches), header="from lib import made\n" + HEADER))
    assert "        if made:\n            self.model = made(self.model)\n" in result
    assert "else:" not in result


@pytest.mark.parametrize(
    ("wrapped", "asked", "made"),
    [
        ("{0}", "models[0]", "self.model = {1}\n"),
        ("net = {0}", "models[0]", "net = {1}\n        self.net = net\n"),
        ("{0}\n        {0}", "models[1]", "self.model = {1}\n        self.model_ = {1}\n"),
        ("for i in 'ab':\n            {0}", "models[1]", "self.networks.append({1})\n"),
        ("if context:\n            {0}", "models[0]", ""),
    ],
)
def test_models_that_only_the_context_keeps(wrapped, asked, made, tmp_path):
    module = "torch.nn.Linear(2, 1)"
    kept = wrapped.format(f"context.wrap_model({module})")
    text = trial((f"self.model = context.wrap_model({module})", kept))
    after = rewritten(tmp_path, text.replace("self.model", f"self.context.{asked}"))
    assert ("# MIGRATE: the context's models" in after) == (not made)
    assert made.format("", module) in after


@pytest.mark.parametrize(
    ("made", "use", "after"),
    [
        ("{1: wrap(1)}", "", "{1: wrap(1)}"),
        ("{k: wrap(k) for k in context.get_hparam('names')}", "", None),
        ("{'train': wrap(1)}", "", "{'train': wrap(1)}"),
        ("{'a.b': wrap(1)}", "", "{'a.b': wrap(1)}"),
        ("{'a': wrap(1)}", "self.nets.get('a')", "{'a': wrap(1)}"),
        ("{'a': wrap(1)}", "self.nets['a']", "torch.nn.ModuleDict({'a': wrap(1)})"),
        (
            "{k: wrap(k) for k in ('a', 'b')}",
            "",
            "torch.nn.ModuleDict({k: wrap(k) for k in ('a', 'b')})",
        ),
        ("[wrap(1), wrap(2)]", "self.nets.index(1)", "[wrap(1), wrap(2)]"),
        ("[wrap(1), wrap(2)]", "self.nets[0]", "torch.nn.ModuleList([wrap(1), wrap(2)])"),
    ],
)
def test_models_that_no_list_or_dict_of_modules_would_hold(tmp_path, made, use, after):
    wrap = "context.wrap_model(torch.nn.Linear({}, 1))"
    for n in "12k":
        made = made.replace(f"wrap({n})", wrap.format(n))
        model = f"torch.nn.Linear({n}, 1)"
        is_plain = after is None or not after.startswith("torch")
        after = after and after.replace(
            f"wrap({n})", f"self.wrap_model({model})" if is_plain else model
        )
    source = trial(
        ("self.model = context.wrap_model(torch.nn.Linear(2, 1))", f"self.nets = {made}"),
        ("self.model.parameters()", "[p for n in self.nets for p in n.parameters()]"),
        ("loss = self.model(batch).sum()", f"{use}\n        loss = batch.sum()"),
        ("self.model(batch).sum()}", "batch.sum()}"),
    )
    text = " ".join(rewritten(tmp_path, source).split())
    assert f"self.nets = {after or '{'}" in text
    assert ("self.add_module(" in text) == is_plain
    assert "MIGRATE" not in text


def test_models_that_are_put_one_by_one_where_no_module_would_hold_them(tmp_path):
    source = trial(
        ("        self.model = context", "        self.nets = {}\n        self.nets[2] = context"),
        ("self.model.parameters()", "self.nets[2].parameters()"),
        ("loss = self.model(batch).sum()", "loss = self.nets[2](batch).sum()"),
        ("self.model(batch).sum()}", "self.nets[2](batch).sum()}"),
    )
    made = rewritten(tmp_path, source)
    assert "self.nets[2] = self.wrap_model(torch.nn.Linear(2, 1))\n" in made
    assert "self.nets = {}\n" in made


SCHEDULER = "context.wrap_lr_scheduler(torch.optim.lr_scheduler.StepLR({0}, 2), {1})"
EPOCH = "LRScheduler.StepMode.STEP_EVERY_EPOCH"


def test_schedulers_that_a_loop_makes_are_all_kept(tmp_path):
    loop = f"{OPT}\n        for opt in [self.opt]:\n            {SCHEDULER.format('opt', EPOCH)}"
    made = rewritten(tmp_path, trial((OPT, loop)))
    assert "self.schedulers = []" in method(made, "__init__")
    assert "[*self.schedulers]" in method(made, "configure_optimizers")
    assert "MIGRATE" not in made


@pytest.mark.parametrize(
    "lines",
    [
        f"for opt in (self.opt, self.opt):\n            self.s = {SCHEDULER.format('opt', EPOCH)}",
        "self.decay(self.opt)\n        self.decay(self.opt)\n\n    def decay(self, opt):\n"
        f"        self.s = self.{SCHEDULER.format('opt', EPOCH)}",
        f"self.s = {SCHEDULER.format('self.opt', EPOCH)}\n        if self.opt:\n"
        f"            self.s = {SCHEDULER.format('self.opt', EPOCH)}",
    ],
)
def test_one_attribute_does_not_keep_several_schedulers(lines, tmp_path):
    made = rewritten(tmp_path, trial((OPT, f"{OPT}\n        {lines}")))
    assert "an LR scheduler that no attribute keeps must be stepped" in made


def test_one_attribute_keeps_the_scheduler_of_the_branch_that_runs(tmp_path):
    made_one = f"            self.s = {SCHEDULER.format('self.opt', EPOCH)}\n"
    lines = (
        f"if batch_size > 1:\n{made_one}        elif self.opt:\n{made_one}        else:\n{made_one}"
    )
    made = rewritten(tmp_path, trial((OPT, f"{OPT}\n        batch_size = 2\n        {lines}")))
    assert "MIGRATE" not in made


def test_methods_keep_what_they_wrap(tmp_path):
    lines = f"{OPT}\n        self.decay()\n\n    def decay(self):\n        self."
    made = rewritten(tmp_path, trial((OPT, lines + SCHEDULER.format("self.opt", EPOCH))))
    assert "self.lr_scheduler = " in method(made, "decay")
    assert "self.lr_scheduler.step()" in method(made, "training_step")


@pytest.mark.parametrize("kept", ["", "self.s = "])
def test_bases_and_heirs_keep_their_own(kept, tmp_path):
    decay = f"        {kept}{SCHEDULER.format('self.opt', EPOCH)}\n"
    heir = (
        "\n\nclass MyHeir(Trial):\n    def __init__(self, context):\n"
        f"        super().__init__(context)\n{decay}"
    )
    made = rewritten(tmp_path, trial((OPT, f"{OPT}\n{decay.rstrip()}")) + heir)
    if kept:
        assert "an LR scheduler that no attribute keeps must be stepped" in made
    else:
        assert "[self.lr_scheduler, self.my_heir_lr_scheduler]" in made


def test_models_that_are_unpacked_at_once_are_no_list(tmp_path):
    model = "self.model = context.wrap_model(torch.nn.Linear(2, 1))"
    both = "self.model, self.other = (context.wrap_model(torch.nn.Linear(2, 1)) for _ in 'ab')"
    made = rewritten(tmp_path, trial((model, both)))
    assert "self.model, self.other = [torch.nn.Linear(2, 1) for _ in 'ab']\n" in made
    assert "MIGRATE" not in made


def test_lists_of_what_a_loop_wraps_are_those_of_the_context(tmp_path):
    model = "self.model = context.wrap_model(torch.nn.Linear(2, 1))"
    models = (
        "for n in (1, 2):\n            context.wrap_model(torch.nn.Linear(2, n))\n"
        "        self.model, self.other = context.models"
    )
    opts = (
        "for net in context.models:\n            "
        "context.wrap_optimizer(torch.optim.SGD(net.parameters(), lr=0.1))"
    )
    steps = ("(self.opt)", "(self.context.optimizers[-1])")
    made = rewritten(tmp_path, trial((model, models), (OPT, opts), steps))
    assert "MIGRATE" not in made
    assert "self.networks = torch.nn.ModuleList()" in made
    assert "[*self.all_optimizers][-1].step()" in made
    lost = rewritten(tmp_path, trial((OPT, opts.replace("context.models", "[self.model]"))))
    assert "configure_optimizers must return every optimizer" in lost


def test_optimizers_of_the_context_stay_attributes(tmp_path):
    steps = "for opt in self.context.optimizers:\n            self.context.step_optimizer(opt)"
    made = rewritten(tmp_path, trial(("self.context.step_optimizer(self.opt)", steps)))
    assert "self.opt = torch.optim.SGD" in made
    assert "MIGRATE" not in made


@pytest.mark.parametrize("use", ["", "self.scale = scaler.get_scale()"])
def test_a_scaler_that_scales_nothing_goes_with_what_wraps_it(tmp_path, use):
    made = (
        f"scaler = torch.amp.GradScaler('cpu')\n        context.wrap_scaler(scaler)\n        {use}"
    )
    found = rewritten(
        tmp_path, trial(("        self.opt =", f"        {made}\n        self.opt ="))
    )
    assert ("GradScaler" in found) == bool(use)
    assert "wrap_scaler" not in found


MAKE = """\
    def make(self):
        if self.context.get_hparam("kind") == "step":
            steps = torch.optim.lr_scheduler.StepLR(self.opt, 1)
            return self.context.wrap_lr_scheduler(steps, LRScheduler.StepMode.STEP_EVERY_BATCH)
        elif self.context.get_hparam("kind") == "epoch":
            epochs = torch.optim.lr_scheduler.ExponentialLR(self.opt, 0.9)
            return self.context.wrap_lr_scheduler(epochs, LRScheduler.StepMode.STEP_EVERY_EPOCH)
        return None

    def build_training"""


@pytest.mark.parametrize("branch", ["elif", "if"])
@pytest.mark.parametrize(
    ("call", "is_seen"),
    [
        ("self.sched = self.make()", True),
        ("sched = self.make()\n        self.sched = sched", False),
        ("self.sched = self.make() or self.make()", False),
        ("self.sched = []\n        for _ in 'ab':\n            self.sched = self.make()", False),
    ],
)
def test_a_method_that_wraps_otherwise_in_each_branch_keeps_it(call, is_seen, branch, tmp_path):
    make = MAKE.replace("elif", branch)
    changes = ((OPT, f"{OPT}\n        {call}"), ("    def build_training", make))
    made = rewritten(tmp_path, trial(*changes))
    assert ("MIGRATE" not in made) == is_seen
    if is_seen:
        assert method(made, "training_step").endswith("        self.sched.step()")
        assert method(made, "training_step").endswith("        self.sched.step()")
        kept = 'self.sched_step_mode = "STEP_EVERY_BATCH"\n        return self.sched\n'
        assert kept in method(made, "make")


def test_what_a_loop_puts_into_a_list_of_the_trial_is_kept_there_alone(tmp_path):
    loop = f"""{OPT}
        self.decays = []
        for gamma in (0.9, 0.5):
            decay = torch.optim.lr_scheduler.ExponentialLR(self.opt, gamma)
            decay = context.wrap_lr_scheduler(decay, LRScheduler.StepMode.STEP_EVERY_EPOCH)
            self.decays.append(decay)"""
    made = rewritten(tmp_path, trial((OPT, loop)))
    assert made.count("scheduler.step()") == 1 and ".schedulers" not in made
    assert "[*self.decays]" in method(made, "configure_optimizers")


@pytest.mark.parametrize("between", ["", "self.rates = 2", "print(self.decay)"])
def test_a_scheduler_that_is_in_an_attribute_already_gets_no_other(between, tmp_path):
    """It is made where Lightning asks for it, unless something has to do with it before."""
    lines = f"""{OPT}
        self.decay = torch.optim.lr_scheduler.ExponentialLR(self.opt, 0.9)
        {between}
        context.wrap_lr_scheduler(self.decay, LRScheduler.StepMode.STEP_EVERY_BATCH)"""
    made = rewritten(tmp_path, trial((OPT, lines)))
    assert "lr_scheduler =" not in made
    is_used = "decay" in between
    assert ("decay = torch" in method(made, "configure_optimizers")) is not is_used
    assert ("self.decay," in method(made, "configure_optimizers")) is is_used

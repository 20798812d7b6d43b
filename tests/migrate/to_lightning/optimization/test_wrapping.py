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
            "return [self.a, self.b]",
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
        ("self.opts = [{0} for _ in 'ab']", "self.opts = found if isinstance(found, list)"),
        ("self.opts = {{n: {0} for n in 'ab'}}", "self.opts = dict(zip(self.opts, found))"),
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
        ("for i in 'ab':\n            {0}", "models[1]", ""),
    ],
)
def test_models_that_only_the_context_keeps(wrapped, asked, made, tmp_path):
    module = "torch.nn.Linear(2, 1)"
    kept = wrapped.format(f"context.wrap_model({module})")
    text = trial((f"self.model = context.wrap_model({module})", kept))
    after = rewritten(tmp_path, text.replace("self.model", f"self.context.{asked}"))
    assert ("# MIGRATE: the context's models" in after) == (not made)
    assert made.format("", module) in after

from __future__ import annotations

from typing import Any

import pytest

from tests.migrate.rewriting import method, rewritten, trial

INIT = "self.context = context\n"


@pytest.mark.parametrize("name", ["wrap_model", "step_optimizer"])
def test_a_method_of_the_context_that_is_handed_on_is_one_of_the_module(tmp_path, name):
    change = (INIT, f"{INIT}        self.setup_of = partial(self.context.{name}, 1)\n")
    made = rewritten(tmp_path, f"from functools import partial\n{trial(change)}")
    assert f"self.setup_of = partial(self.{name}, 1)" in made
    assert "MIGRATE" not in made
    namespace: dict[str, object] = {}
    exec(compile(method(made, name), "made", "exec"), namespace)
    assert callable(namespace[name])
    assert rewritten(tmp_path, made) == made


def test_a_trial_with_such_a_method_of_its_own_keeps_it(tmp_path):
    change = (INIT, f"{INIT}        self.setup_of = Setup(wrap=self.context.wrap_model)\n")
    own = "    def wrap_model(self, model):\n        return 0\n\n    def evaluate_batch"
    made = rewritten(tmp_path, trial(change, ("    def evaluate_batch", own)))
    assert "# MIGRATE: the context's wrap_model has no counterpart" in made


def test_the_methods_do_what_those_of_the_context_did():
    import torch

    from det_compat.migrate.to_lightning.written_out.handed import _METHODS

    module = torch.nn.Module()
    layer, other = torch.nn.Linear(1, 1, bias=False), torch.nn.Linear(1, 1)
    namespace: dict[str, object] = {}
    for text in _METHODS.values():
        exec(text, namespace)
    wrap, step = namespace["wrap_model"], namespace["step_optimizer"]
    assert callable(wrap) and callable(step)
    assert [wrap(module, each) for each in (layer, other)] == [layer, other]
    assert [*module.children()] == [layer, other]
    optimizer = torch.optim.SGD(layer.parameters(), lr=1.0)
    before = layer.weight.item()
    layer.weight.grad = torch.full((1, 1), 4.0)
    step(module, optimizer, lambda params: torch.nn.utils.clip_grad_value_(params, 0.5))
    assert layer.weight.item() == pytest.approx(before - 0.5)
    assert layer.weight.grad is None


SCORE = "class Score:\n    def __init__(self, net):\n        self.get = lambda: net\n\n\n"


def test_a_model_in_a_variable_is_an_attribute(tmp_path):
    lines = (
        "net = torch.nn.Linear(1, 1)\n        # seen\n        net = context.wrap_model(net)\n"
        "        other = context.wrap_model(torch.nn.Linear(1, 1))\n"
        "        self.made = Score(net), Score(other)\n"
    )
    made = rewritten(tmp_path, SCORE + trial((INIT, f"{INIT}        {lines}")))
    assert "# seen\n        self.net = net\n" in made
    assert "other = torch.nn.Linear(1, 1)\n        self.other = other\n" in made
    assert "wrap_model" not in made
    namespace: dict[str, Any] = {}
    exec(made, namespace)
    names = {name for name, _ in namespace["Trial"](global_batch_size=1).named_children()}
    assert names == {"net", "other", "model"}


@pytest.mark.parametrize("name", ["logger", "taken"])
def test_a_name_that_means_something_else_is_no_attribute(name, tmp_path):
    lines = f"self.taken = 1\n        {name} = context.wrap_model(torch.nn.Linear(1, 1))\n"
    lines += f"        self.made = Score({name})\n"
    made = rewritten(tmp_path, SCORE + trial((INIT, f"{INIT}        {lines}")))
    assert f"self.{name} = {name}\n" not in made
    assert "def wrap_model(" in made

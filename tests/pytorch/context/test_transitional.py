from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from det_compat import core
from det_compat.config.periods import batches_per_step
from det_compat.errors import InvalidExperimentException
from det_compat.pytorch import LRScheduler, PyTorchTrialContext, reset_parameters

MODES = LRScheduler.StepMode


def context(steps_completed: int = 0, exp_conf: Any = None) -> Any:
    return PyTorchTrialContext(
        core_context=core.TrialCore(),
        trial_seed=None,
        hparams={},
        slots_per_trial=1,
        num_gpus=0,
        exp_conf=exp_conf,
        aggregation_frequency=1,
        steps_completed=steps_completed,
        managed_training=True,
        debug_enabled=False,
        enable_tensorboard_logging=False,
    )


@pytest.mark.parametrize("prefix", ["", "_"])
def test_wrapping(prefix: str) -> None:
    ctx = context()
    model = nn.Linear(1, 1)
    assert getattr(ctx, f"{prefix}Model")(model) is model
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    assert getattr(ctx, f"{prefix}Optimizer")(optimizer) is optimizer
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    wrapper = getattr(ctx, f"{prefix}LRScheduler")(scheduler, MODES.STEP_EVERY_EPOCH)
    assert isinstance(wrapper, LRScheduler) and wrapper is ctx.lr_schedulers[0]
    assert (ctx.models, ctx.optimizers) == ([model], [optimizer])
    assert ctx.get_model() is model
    assert ctx.get_optimizer() is optimizer
    assert ctx.get_lr_scheduler() is wrapper
    assert ctx.get_lr_scheduler().get_last_lr() == [1.0]


def test_training() -> None:
    ctx = context()
    model = ctx._Model(nn.Linear(1, 1, bias=False))
    optimizer = ctx._Optimizer(torch.optim.SGD(model.parameters(), lr=1.0))
    nn.init.ones_(model.weight)
    ctx._current_batch_idx = 0
    ctx._backward(model(ctx._to_device([torch.ones(1)])[0]).sum(), retain_graph=True)

    def halve(parameters: Any) -> None:
        for parameter in parameters:
            parameter.grad /= 2

    ctx._step_optimizer(optimizer, clip_grads=halve)
    assert model.weight.item() == 0.5


def test_configure_apex_amp_gives_back_what_it_was_given() -> None:
    ctx = context()
    model = ctx._Model(nn.Linear(1, 1))
    optimizer = ctx._Optimizer(torch.optim.SGD(model.parameters(), lr=1.0))
    with pytest.warns(FutureWarning, match="opt_level='O0'"):
        given = ctx._configure_apex_amp(models=model, optimizers=optimizer, opt_level="O0")
    assert given == (model, optimizer)
    assert ctx._apex_opt_level == "O0"


@pytest.mark.parametrize("method", ["get_model", "get_optimizer"])
def test_there_must_be_one(method: str) -> None:
    ctx = context()
    with pytest.raises(InvalidExperimentException, match=f"{method}.. is for .* and 0 are wrapped"):
        getattr(ctx, method)()
    for _ in range(2):
        model = ctx.wrap_model(nn.Linear(1, 1))
        ctx.wrap_optimizer(torch.optim.SGD(model.parameters(), lr=1.0))
    with pytest.raises(InvalidExperimentException, match=f"{method}.. is for .* and 2 are wrapped"):
        getattr(ctx, method)()


def test_there_may_be_no_scheduler_but_not_two() -> None:
    ctx = context()
    assert ctx.get_lr_scheduler() is None
    optimizer = ctx._Optimizer(torch.optim.SGD(nn.Linear(1, 1).parameters(), lr=1.0))
    for _ in range(2):
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
        ctx.LRScheduler(scheduler, step_mode=MODES.MANUAL_STEP)
    with pytest.raises(InvalidExperimentException, match="one LR scheduler, and 2 are wrapped"):
        ctx.get_lr_scheduler()


def test_gpus() -> None:
    ctx = context()
    assert ctx.n_gpus == 0


@pytest.mark.parametrize(
    ("done", "conf", "first"),
    [
        (0, None, 1),
        (200, None, 3),
        (60, {"batches_per_step": 20}, 4),
        (60, {"scheduling_unit": 30, "batches_per_step": 20}, 3),
    ],
)
def test_first_step(done: int, conf: Any, first: int) -> None:
    assert context(done, conf).env.first_step() == first


def test_batches_per_step() -> None:
    assert [batches_per_step(conf) for conf in (None, {}, {"batches_per_step": 7})] == [100, 100, 7]


def test_every_module_is_reset_in_order() -> None:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Sequential(nn.Linear(3, 1)))
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    torch.manual_seed(1)
    reset_parameters(model)
    torch.manual_seed(1)
    expected = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Sequential(nn.Linear(3, 1)))
    for ours, theirs in zip(model.parameters(), expected.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_a_module_may_have_something_else_of_that_name() -> None:
    model = nn.Linear(1, 1)
    model.reset_parameters = False
    before = model.weight.clone()
    reset_parameters(model)
    assert torch.equal(model.weight, before)

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

from det_compat.errors import InvalidExperimentException
from det_compat.pytorch import LRScheduler, PyTorchTrialContext, init
from tests.pytorch.libraries import Library, train, wrapped


@pytest.fixture
def context() -> Iterator[PyTorchTrialContext]:
    with init() as context:
        yield context


def steps(lib: Library, *xs: float, aggregation: int = 1, **kwargs: Any) -> float:
    """The weight, 1.0 at first, after batches with gradients ``xs`` and a learning rate of 1."""
    names = ("average_aggregated_gradients", "backward_passes_per_step", "fp16_compression")
    wrapping = {name: kwargs.pop(name) for name in names if name in kwargs}
    with lib.init(aggregation_frequency=aggregation) as context:
        model, optimizer = wrapped(context, **wrapping)
        train(context, model, optimizer, *xs, **kwargs)
        return next(model.parameters()).item()


def clip(limit: float, seen: list[float] | None = None) -> Any:
    def clip_grads(parameters: Any) -> None:
        parameters = list(parameters)
        if seen is not None:
            seen.extend(float(parameter.grad) for parameter in parameters)
        nn.utils.clip_grad_value_(parameters, limit)

    return clip_grads


# step_optimizer and backward, as in determined


def test_steps_once_a_batch(lib: Library) -> None:
    assert steps(lib, 2.0, 3.0) == 1 - 2 - 3


def test_gradients_are_averaged_over_the_aggregated_batches(lib: Library) -> None:
    assert steps(lib, 2.0, aggregation=2) == 1
    assert steps(lib, 2.0, 3.0, aggregation=2) == 1 - 2.5
    assert steps(lib, 2.0, 3.0, 100.0, aggregation=2) == 1 - 2.5
    assert steps(lib, 2.0, 3.0, 1.0, 1.0, aggregation=2) == 1 - 2.5 - 1


def test_gradients_are_summed_where_averaging_is_off(lib: Library) -> None:
    assert steps(lib, 2.0, 3.0, aggregation=2, average_aggregated_gradients=False) == 1 - 5
    assert steps(lib, 2.0, 3.0, aggregation=2, average_aggregated_gradients=True) == 1 - 2.5


def test_horovods_arguments_have_no_effect(lib: Library) -> None:
    assert steps(lib, 2.0, 3.0, backward_passes_per_step=3, fp16_compression=True) == 1 - 2 - 3


def test_clipping_sees_averaged_gradients(lib: Library) -> None:
    seen: list[float] = []
    assert steps(lib, 2.0, 3.0, aggregation=2, clip_grads=clip(1.0, seen)) == 1 - 1
    assert seen == [2.5]


def test_gradients_add_up_without_auto_zero_grads(lib: Library) -> None:
    assert steps(lib, 2.0, 3.0, auto_zero_grads=False) == 1 - 2 - (2 + 3)


def test_auto_zero_grads_false_does_not_go_with_aggregation(lib: Library) -> None:
    with pytest.raises(lib.errors.InvalidExperimentException, match="auto_zero_grads"):
        steps(lib, 2.0, aggregation=2, auto_zero_grads=False)


def test_stepping_before_training_is_an_error_of_its_own(lib: Library) -> None:
    with lib.init() as context:
        model, optimizer = wrapped(context)
        context.backward(model(torch.ones(1, 1)).sum())
        with pytest.raises(lib.errors.InternalException, match=r"(?i)training has"):
            context.step_optimizer(optimizer)


def test_parameters_without_gradients_are_skipped(lib: Library) -> None:
    with lib.init(aggregation_frequency=2) as context:
        model, optimizer = wrapped(context)
        optimizer.add_param_group({"params": [nn.Parameter(torch.ones(1))]})
        train(context, model, optimizer, 1.0, 1.0)
        assert model.weight.item() == 0


def test_backward_keeps_and_creates_graphs(lib: Library) -> None:
    with lib.init() as context:
        x = torch.tensor([2.0, 3.0], requires_grad=True)
        loss = (x**3).sum()
        context.backward(loss, retain_graph=True)
        context.backward(loss)
        assert x.grad is not None and x.grad.tolist() == [2 * 12, 2 * 27]
        with pytest.raises(RuntimeError, match="second time"):
            context.backward(loss)


@pytest.mark.filterwarnings("ignore:Using backward\\(\\) with create_graph")
def test_second_order_gradients(lib: Library) -> None:
    with lib.init() as context:
        x = torch.tensor([2.0], requires_grad=True)
        context.backward((x**3).sum(), create_graph=True)
        assert x.grad is not None
        first, x.grad = x.grad, None
        context.backward(first.sum())
        assert x.grad.tolist() == [12.0]


def test_backward_takes_the_gradient_of_a_loss_that_is_no_scalar(lib: Library) -> None:
    with lib.init() as context:
        x = torch.tensor([2.0, 3.0], requires_grad=True)
        context.backward(x * x, gradient=torch.tensor([1.0, 10.0]))
        assert x.grad is not None and x.grad.tolist() == [4.0, 60.0]


# gradient scalers: torch's, on the CPU


def automatic(context: Any, **kwargs: Any) -> torch.amp.GradScaler:
    """What use_amp() sets up on a GPU."""
    scaler = torch.amp.GradScaler("cpu", **kwargs)
    context._scaler = scaler
    context.experimental._auto_amp = True
    return scaler


def test_automatic_scaling_clips_unscaled_gradients(lib: Library) -> None:
    seen: list[float] = []
    with lib.init() as context:
        model, optimizer = wrapped(context)
        automatic(context, init_scale=1024.0)
        context.backward(model(torch.tensor([[2.0]])).sum())
        assert model.weight.grad.item() == 2048
        optimizer.zero_grad()
        train(context, model, optimizer, 3.0, clip_grads=clip(1.0, seen))
        assert seen == [3.0]
        assert model.weight.item() == 0


def test_automatic_scaling_averages_and_unscales(lib: Library) -> None:
    with lib.init(aggregation_frequency=2) as context:
        model, optimizer = wrapped(context)
        automatic(context, init_scale=1024.0)
        train(context, model, optimizer, 2.0, 3.0)
        assert model.weight.item() == 1 - 2.5


def test_an_overflow_skips_the_step(lib: Library) -> None:
    with lib.init() as context:
        model, optimizer = wrapped(context)
        scaler = automatic(context, init_scale=1024.0)
        train(context, model, optimizer, 1e38)
        assert model.weight.item() == 1
        assert model.weight.grad is None
        scaler.update()
        assert scaler.get_scale() == 512


def test_the_trials_own_scaler_is_given_to_step_optimizer(lib: Library) -> None:
    with lib.init() as context:
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
        assert context.wrap_scaler(scaler) is scaler
        model, optimizer = wrapped(context)
        context._current_batch_idx = 0
        loss = model(torch.tensor([[2.0]])).sum()
        context.backward(scaler.scale(loss))
        assert model.weight.grad.item() == 16
        scaler.unscale_(optimizer)
        context.step_optimizer(optimizer, clip_grads=clip(1.0), scaler=scaler)
        assert model.weight.item() == 0
        assert scaler.get_scale() == 8


def test_a_wrapped_scaler_is_not_used_unasked(lib: Library) -> None:
    with lib.init() as context:
        context.wrap_scaler(torch.amp.GradScaler("cpu", init_scale=8.0))
        model, optimizer = wrapped(context)
        train(context, model, optimizer, 2.0)
        assert model.weight.item() == 1 - 2


def test_a_scaler_is_wrapped_once_and_before_models(lib: Library) -> None:
    scaler = torch.amp.GradScaler("cpu")
    with lib.init() as context:
        context.wrap_scaler(scaler)
        with pytest.raises(lib.errors.InvalidExperimentException, match="once"):
            context.wrap_scaler(scaler)
    with lib.init() as context:
        context.wrap_model(nn.Linear(1, 1))
        with pytest.raises(lib.errors.InvalidExperimentException, match="before wrap_model"):
            context.wrap_scaler(scaler)


# wrapping


def test_wrap_model_returns_the_model(lib: Library) -> None:
    with lib.init() as context:
        first, second = nn.Linear(1, 1), nn.BatchNorm1d(1)
        assert context.wrap_model(first) is first
        assert context.wrap_model(second) is second
        assert context.models == [first, second]
        assert context.device == next(first.parameters()).device


def test_losses_and_models_without_an_optimizer_are_wrapped(lib: Library) -> None:
    with lib.init() as context:
        loss = nn.CrossEntropyLoss()
        assert context.wrap_model(loss) is loss
        assert context.models == [loss]


def test_optimizers_may_be_made_before_their_model_is_wrapped(lib: Library) -> None:
    with lib.init() as context:
        model = nn.Linear(1, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        scheduler = lr_scheduler.StepLR(optimizer, 1)
        assert context.wrap_optimizer(optimizer) is optimizer
        assert (
            context.wrap_lr_scheduler(scheduler, lib.pytorch.LRScheduler.StepMode(1)) is scheduler
        )
        context.wrap_model(model)
        assert context.optimizers == [optimizer]
        assert [type(wrapped).__name__ for wrapped in context.lr_schedulers] == ["LRScheduler"]


def test_backward_passes_per_step_is_checked(lib: Library) -> None:
    with (
        lib.init() as context,
        pytest.raises(lib.errors.InvalidExperimentException, match="got 0"),
    ):
        wrapped(context, backward_passes_per_step=0)


def test_step_optimizer_of_an_optimizer_that_is_not_wrapped(context: PyTorchTrialContext) -> None:
    model, _ = wrapped(context)
    stranger = torch.optim.Adam(model.parameters())
    with pytest.raises(InvalidExperimentException, match=r"Adam\) that is not wrapped.*wrap_optim"):
        train(context, model, stranger, 1.0)


def test_a_schedulers_optimizer_must_be_wrapped(lib: Library) -> None:
    with lib.init() as context:
        _, optimizer = wrapped(context)
        stranger = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)
        mode = lib.pytorch.LRScheduler.StepMode.STEP_EVERY_BATCH
        with pytest.raises(lib.errors.InvalidExperimentException, match="wrap_optimizer"):
            context.wrap_lr_scheduler(lr_scheduler.StepLR(stranger, 1), mode)
        assert context.lr_schedulers == []
        context.wrap_lr_scheduler(lr_scheduler.StepLR(optimizer, 1), mode, frequency=2)
        assert len(context.lr_schedulers) == 1


def test_the_error_names_scheduler_and_optimizer(context: PyTorchTrialContext) -> None:
    scheduler = lr_scheduler.StepLR(torch.optim.Adam([nn.Parameter(torch.ones(1))]), 1)
    with pytest.raises(InvalidExperimentException, match=r"Adam.*StepLR"):
        context.wrap_lr_scheduler(scheduler, LRScheduler.StepMode.STEP_EVERY_EPOCH)


def test_plateau_schedulers_are_stepped_by_hand(lib: Library) -> None:
    modes = lib.pytorch.LRScheduler.StepMode
    with lib.init() as context:
        _, optimizer = wrapped(context)
        scheduler = lr_scheduler.ReduceLROnPlateau(optimizer)
        for mode in set(modes) - {modes.MANUAL_STEP}:
            with pytest.raises(lib.errors.InvalidExperimentException, match="MANUAL_STEP"):
                context.wrap_lr_scheduler(scheduler, mode)
        assert context.wrap_lr_scheduler(scheduler, modes.MANUAL_STEP) is scheduler


def test_schedulers_that_are_not_torchs(lib: Library) -> None:
    class Warmup:
        def step(self) -> None: ...

    with lib.init() as context:
        scheduler = Warmup()
        mode = lib.pytorch.LRScheduler.StepMode.STEP_EVERY_BATCH
        assert context.wrap_lr_scheduler(scheduler, mode) is scheduler


def test_step_mode_may_be_the_real_determineds(context: PyTorchTrialContext) -> None:
    modes = pytest.importorskip("determined.pytorch").LRScheduler.StepMode
    _, optimizer = wrapped(context)
    with pytest.raises(InvalidExperimentException, match="MANUAL_STEP"):
        context.wrap_lr_scheduler(lr_scheduler.ReduceLROnPlateau(optimizer), modes.STEP_EVERY_EPOCH)
    context.wrap_lr_scheduler(lr_scheduler.StepLR(optimizer, 1), modes.STEP_EVERY_EPOCH)
    assert context.lr_schedulers[0]._step_mode is LRScheduler.StepMode.STEP_EVERY_EPOCH


def test_step_mode_must_be_one(context: PyTorchTrialContext) -> None:
    _, optimizer = wrapped(context)
    with pytest.raises(TypeError, match=r"STEP_EVERY_EPOCH.*got str 'epoch'"):
        context.wrap_lr_scheduler(lr_scheduler.StepLR(optimizer, 1), "epoch")


# the context itself


@pytest.mark.parametrize("frequency", [0, -1, 1.5, "2", None])
def test_aggregation_frequency_is_a_positive_integer(frequency: Any) -> None:
    with (
        pytest.raises(InvalidExperimentException, match=rf"at least 1, got {frequency!r}"),
        init(aggregation_frequency=frequency),
    ):
        pass


@pytest.mark.parametrize(
    "name",
    ["model", "build_model", "_fit", "get_something", "hparams", "experiment", "loss"],
)
def test_unknown_names_are_not_there(lib: Library, name: str) -> None:
    with lib.init(hparams={"loss": 1}) as context:
        assert not hasattr(context, name)
        with pytest.raises(AttributeError, match=name):
            getattr(context, name)


def test_attributes_that_trials_read(lib: Library) -> None:
    with lib.init(aggregation_frequency=3) as context:
        assert context.device == torch.device("cpu")
        assert context._aggregation_frequency == 3
        assert context._current_batch_idx is None
        assert context._epoch_len is None
        assert (context.models, context.optimizers, context.lr_schedulers) == ([], [], [])
        assert context.profiler is None
        assert context.distributed.get_rank() == 0
        assert context.distributed.get_size() == 1


def test_bound_methods_can_be_kept(lib: Library) -> None:
    with lib.init() as context:
        keeper = types.SimpleNamespace(
            backward=context.backward, step=context.step_optimizer, wrap=context.wrap_model
        )
        model = keeper.wrap(nn.Linear(1, 1, bias=False))
        optimizer = context.wrap_optimizer(torch.optim.SGD(model.parameters(), lr=1.0))
        context._current_batch_idx = 0
        before = model.weight.item()
        keeper.backward(model(torch.ones(1, 1)).sum())
        keeper.step(optimizer)
        assert model.weight.item() == pytest.approx(before - 1)


def test_to_device_takes_any_nesting(lib: Library) -> None:
    with lib.init() as context:
        batch = {"x": [torch.ones(2), (torch.zeros(1),)], "name": "a"}
        moved = context.to_device(batch)
        assert moved["name"] == "a"
        assert moved["x"][0].device == context.device
        assert isinstance(moved["x"][1], tuple)


def test_ddp_kwargs_are_within_reach(context: PyTorchTrialContext) -> None:
    assert context.ddp_kwargs == {}

from __future__ import annotations

import copy
import pickle
from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn

from det_compat.errors import InvalidExperimentException
from det_compat.pytorch import CheckpointLoadContext, PyTorchTrialContext, init
from det_compat.pytorch.context.amp import autocast_forward, grad_scaler
from tests.pytorch.libraries import train, wrapped

CUDA = torch.device("cuda")
HALF = torch.ones(2, dtype=torch.float16)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mixed precision does what it does on a GPU, on tensors that stay on the CPU."""
    monkeypatch.setattr(torch.cuda.amp.common, "amp_definitely_not_available", lambda: False)


@pytest.fixture
def context() -> Iterator[PyTorchTrialContext]:
    with init() as context:
        yield context


@pytest.fixture
def on_gpu(gpu: None, context: PyTorchTrialContext) -> PyTorchTrialContext:
    """Models and tensors stay on the CPU; only wrap_model() moves, so call it before."""
    return context


def is_autocast() -> bool:
    return torch.is_autocast_enabled("cuda") and torch.get_autocast_dtype("cuda") == torch.float16


class Model(nn.Module):
    """Returns what it is given and notes whether it was run in autocast."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[bool] = []

    def forward(self, output: Any = None, error: Exception | None = None, depth: int = 0) -> Any:
        self.seen.append(is_autocast())
        if error is not None:
            raise error
        if depth:
            self(depth=depth - 1)
            self.seen.append(is_autocast())
        return output


@pytest.fixture
def model(gpu: None) -> Model:
    model = Model()
    autocast_forward(model, CUDA)
    return model


# forward passes


def test_forward_passes_run_in_autocast(model: Model) -> None:
    assert not is_autocast()
    model()
    model()
    assert model.seen == [True, True]
    assert not is_autocast()


def test_an_exception_ends_autocast(model: Model) -> None:
    with pytest.raises(KeyError, match="user bug"):
        model(error=KeyError("user bug"))
    assert not is_autocast()
    model()
    assert model.seen == [True, True]
    assert not is_autocast()


def test_a_model_may_call_itself(model: Model) -> None:
    model(depth=2)
    assert model.seen == [True] * 5
    assert not is_autocast()


def test_a_model_inside_another(gpu: None) -> None:
    outer, inner = Model(), Model()
    outer.inner = inner
    outer.register_forward_pre_hook(lambda module, args: module.inner() and None)
    for part in (outer, inner):
        autocast_forward(part, CUDA)
    outer()
    assert outer.seen == inner.seen == [True]
    assert not is_autocast()


def test_autocast_that_the_trial_switched_off_inside_stays_off(gpu: None) -> None:
    class Float32(Model):
        def forward(self, *args: Any, **kwargs: Any) -> Any:
            with torch.autocast("cuda", enabled=False):
                return super().forward(*args, **kwargs)

    model = Float32()
    autocast_forward(model, CUDA)
    model()
    assert model.seen == [False]


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_nothing_happens_on_other_devices(device: str) -> None:
    model = Model()
    autocast_forward(model, torch.device(device))
    assert model(HALF) is HALF
    assert model.seen == [False]
    assert not model._forward_hooks and not model._forward_pre_hooks


def test_the_model_stays_what_it_is(model: Model) -> None:
    assert type(model) is Model
    model()
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        other()
        assert other.seen == [True, True]
        assert model.seen == [True]
    assert model.state_dict() == {}


# outputs


class Pair(NamedTuple):
    logits: Any
    name: str = "x"


@dataclass
class Output(OrderedDict):
    """Like the outputs of Hugging Face's models."""

    loss: Any = None
    logits: Any = None

    def __post_init__(self) -> None:
        for field in fields(self):
            super().__setitem__(field.name, getattr(self, field.name))

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def update(self, *args: Any, **kwargs: Any) -> None:
        raise TypeError("not on this class")

    def __reduce__(self) -> Any:
        kind, _, *rest = super().__reduce__()
        return (kind, tuple(getattr(self, field.name) for field in fields(self)), *rest)


class ReadOnly(dict):
    def __setitem__(self, key: Any, value: Any) -> None:
        raise TypeError("read-only")


def dtypes(output: Any) -> Any:
    if isinstance(output, torch.Tensor):
        return output.dtype
    if isinstance(output, dict):
        return {key: dtypes(value) for key, value in output.items()}
    return [dtypes(value) for value in output]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
def test_other_types_stay(model: Model, dtype: torch.dtype) -> None:
    output = torch.ones(1, dtype=dtype)
    assert model(output) is output


def test_float16_becomes_float32_in_any_nesting(model: Model) -> None:
    output = model(
        {"a": HALF, "b": [HALF, (HALF, {"c": HALF})], "n": torch.ones(1, dtype=torch.int32)}
    )
    f32 = torch.float32
    assert dtypes(output) == {"a": f32, "b": [f32, [f32, {"c": f32}]], "n": torch.int32}
    assert isinstance(output["b"], list) and isinstance(output["b"][1], tuple)


def test_gradients_flow_through_the_conversion(model: Model) -> None:
    weight = torch.ones(2, dtype=torch.float16, requires_grad=True)
    model([weight * 2])[0].sum().backward()
    assert weight.grad is not None and weight.grad.tolist() == [2, 2]


def test_outputs_keep_their_class(model: Model) -> None:
    pair = model(Pair(HALF))
    assert type(pair) is Pair and pair.logits.dtype == torch.float32 and pair.name == "x"
    ordered = model(OrderedDict(b=HALF, a=HALF))
    assert type(ordered) is OrderedDict and list(ordered) == ["b", "a"]
    default = model(defaultdict(list, a=HALF))
    assert default["nothing"] == [] and default["a"].dtype == torch.float32


def test_attributes_of_outputs_are_converted_with_them(model: Model) -> None:
    given = Output(loss=HALF, logits=(HALF,))
    output = model(given)
    assert type(output) is Output
    assert output.loss is output["loss"] and output.loss.dtype == torch.float32
    assert output.logits[0].dtype == torch.float32
    assert given.loss is HALF


def test_a_read_only_dict_becomes_a_plain_one(model: Model) -> None:
    output = model(ReadOnly(a=HALF))
    assert type(output) is dict and output["a"].dtype == torch.float32


def test_other_outputs_stay_and_are_told_of_once(
    model: Model, caplog: pytest.LogCaptureFixture
) -> None:
    @dataclass
    class Custom:
        logits: torch.Tensor

    output = Custom(HALF)
    assert model(output) is output
    assert model({"o": output})["o"] is output
    (message,) = caplog.messages
    assert "Custom" in message and "torch.autocast()" in message


def test_no_output_is_nothing_to_tell_of(model: Model, caplog: pytest.LogCaptureFixture) -> None:
    assert model(None) is None
    assert caplog.messages == []


# scalers


def test_scalers_are_for_cuda(gpu: None) -> None:
    assert grad_scaler(CUDA).is_enabled()
    assert not grad_scaler(torch.device("cpu")).is_enabled()
    assert type(grad_scaler(CUDA)) is torch.amp.GradScaler


def test_use_amp_on_a_gpu(on_gpu: PyTorchTrialContext, monkeypatch: pytest.MonkeyPatch) -> None:
    context = on_gpu
    monkeypatch.setattr(nn.Module, "to", lambda module, device: module)
    context.device = CUDA
    context.experimental.use_amp()
    model, optimizer = Model(), torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)
    assert context.wrap_model(model) is model
    context.wrap_optimizer(optimizer)
    assert model(HALF).dtype == torch.float32
    assert model.seen == [True]
    assert context._scaler.get_scale() == 2.0**16


# Apex


def apex(context: PyTorchTrialContext, **kwargs: Any) -> tuple[nn.Module, torch.optim.Optimizer]:
    """A wrapped model and optimizer, given to configure_apex_amp() as on a GPU."""
    model, optimizer = wrapped(context)
    context.device = CUDA
    with pytest.warns(FutureWarning, match="Apex is no longer maintained"):
        found = context.configure_apex_amp(model, optimizer, **kwargs)
    assert found == (model, optimizer)
    return model, optimizer


@pytest.mark.parametrize("opt_level", ["O1", "O2", "O3", None])
def test_mixed_levels_are_autocast_and_one_scaler(
    on_gpu: PyTorchTrialContext, opt_level: str | None
) -> None:
    model, optimizer = apex(on_gpu, opt_level=opt_level)
    inside: list[bool] = []
    model.register_forward_pre_hook(lambda module, args: inside.append(is_autocast()))
    train(on_gpu, model, optimizer, 2.0)
    assert inside == [True]
    assert next(model.parameters()).dtype == torch.float32
    assert next(model.parameters()).item() == 1 - 2
    assert on_gpu._scaler.is_enabled()
    assert on_gpu._scaler.get_scale() == 2.0**16


def test_o0_is_float32(on_gpu: PyTorchTrialContext) -> None:
    model, optimizer = apex(on_gpu, opt_level="O0", loss_scale=128.0)
    inside: list[bool] = []
    model.register_forward_pre_hook(lambda module, args: inside.append(is_autocast()))
    train(on_gpu, model, optimizer, 2.0)
    assert inside == [False]
    assert on_gpu._scaler is None
    assert on_gpu.experimental._auto_amp is False


@pytest.mark.parametrize("loss_scale", [None, "dynamic"])
def test_a_dynamic_scale_shrinks_on_overflow(
    on_gpu: PyTorchTrialContext, loss_scale: str | None
) -> None:
    model, optimizer = apex(on_gpu, loss_scale=loss_scale)
    train(on_gpu, model, optimizer, 1e38)
    on_gpu._scaler.update()
    assert on_gpu._scaler.get_scale() == 2.0**15
    assert next(model.parameters()).item() == 1


@pytest.mark.parametrize("loss_scale", [128, 128.0, "128.0"])
def test_a_constant_scale_is_kept(on_gpu: PyTorchTrialContext, loss_scale: Any) -> None:
    model, optimizer = apex(on_gpu, loss_scale=loss_scale)
    on_gpu.backward(model(torch.tensor([[2.0]])).sum())
    assert next(model.parameters()).grad.item() == 256
    optimizer.zero_grad()
    for x in (2.0, 3e38, 3.0):
        train(on_gpu, model, optimizer, x)
        on_gpu._scaler.update()
        assert on_gpu._scaler.get_scale() == 128
    assert next(model.parameters()).item() == 1 - 2 - 3


def test_a_constant_scale_survives_a_long_run(on_gpu: PyTorchTrialContext) -> None:
    apex(on_gpu, loss_scale=1000.0)
    scaler = on_gpu._scaler
    weight = nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.0)
    for step in range(2500):
        scaler.scale((weight * (float("inf") if step % 5 == 0 else 1)).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
    assert scaler.get_scale() == 1000


def test_several_models_and_optimizers(on_gpu: PyTorchTrialContext) -> None:
    first, optimizer = wrapped(on_gpu)
    second, other = wrapped(on_gpu)
    models, optimizers = [first, second], [optimizer, other]
    on_gpu.device = CUDA
    with pytest.warns(FutureWarning):
        assert on_gpu.configure_apex_amp(models, optimizers) == (models, optimizers)
    assert [len(model._forward_pre_hooks) for model in models] == [1, 1]


def test_several_losses_share_a_scale(
    on_gpu: PyTorchTrialContext, caplog: pytest.LogCaptureFixture
) -> None:
    apex(on_gpu, num_losses=2)
    assert "the 2 losses share one loss scale" in caplog.text


def test_without_a_gpu_it_trains_in_float32(context: PyTorchTrialContext) -> None:
    model, optimizer = wrapped(context)
    with pytest.warns(FutureWarning, match=r"in float32, since cpu has no"):
        context.configure_apex_amp(model, optimizer, opt_level="O2", loss_scale=128.0)
    train(context, model, optimizer, 2.0)
    assert next(model.parameters()).item() == 1 - 2
    assert not context._scaler.is_enabled()


@pytest.mark.parametrize(
    ("opt_level", "meaning"),
    [("O0", "in float32"), ("O1", "float16 autocast"), ("O2", "float16"), ("O3", "float16")],
)
def test_it_says_what_it_does(on_gpu: PyTorchTrialContext, opt_level: str, meaning: str) -> None:
    model, optimizer = wrapped(on_gpu)
    on_gpu.device = CUDA
    with pytest.warns(FutureWarning, match=f"opt_level='{opt_level}'.*{meaning}.*use_amp") as told:
        on_gpu.configure_apex_amp(model, optimizer, opt_level=opt_level)
    assert len(told) == 1
    assert told[0].filename == __file__


def test_opt_levels_that_apex_does_not_have(context: PyTorchTrialContext) -> None:
    model, optimizer = wrapped(context)
    with pytest.raises(ValueError, match="O0, O1, O2, O3, got 'O4'"):
        context.configure_apex_amp(model, optimizer, opt_level="O4")
    assert context._apex_opt_level is None


@pytest.mark.parametrize("enabled", [False, None])
def test_it_can_be_switched_off(context: PyTorchTrialContext, enabled: bool | None) -> None:
    model, optimizer = wrapped(context)
    assert context.configure_apex_amp(model, optimizer, enabled=enabled) == (model, optimizer)
    assert context._scaler is None
    wrapped(context)


def test_a_trial_that_is_not_trained_is_left_alone() -> None:
    context = CheckpointLoadContext()
    model, optimizer = wrapped(context)
    assert context.configure_apex_amp(model, optimizer) == (model, optimizer)
    assert context._scaler is None


@pytest.mark.filterwarnings("ignore:NVIDIA Apex")
@pytest.mark.parametrize("opt_level", ["O0", "O1"])
def test_it_comes_once_and_last(context: PyTorchTrialContext, opt_level: str) -> None:
    model, optimizer = wrapped(context)
    context.configure_apex_amp(model, optimizer, opt_level=opt_level)
    with pytest.raises(InvalidExperimentException, match="once"):
        context.configure_apex_amp(model, optimizer, opt_level=opt_level)
    with pytest.raises(InvalidExperimentException, match=r"wrap_model\(\) before configure_apex"):
        context.wrap_model(nn.Linear(1, 1))
    with pytest.raises(InvalidExperimentException, match=r"wrap_optimizer\(\) before configure_a"):
        context.wrap_optimizer(optimizer)
    with pytest.raises(InvalidExperimentException, match="remove it to use"):
        context.wrap_scaler(torch.amp.GradScaler("cpu"))


@pytest.mark.filterwarnings("ignore:NVIDIA Apex")
def test_it_does_not_go_with_another_scaler(context: PyTorchTrialContext) -> None:
    context.wrap_scaler(torch.amp.GradScaler("cpu"))
    model, optimizer = wrapped(context)
    with pytest.raises(InvalidExperimentException, match=r"wrap_scaler\(\).*remove configure_apex"):
        context.configure_apex_amp(model, optimizer)


@pytest.mark.filterwarnings("ignore:NVIDIA Apex")
def test_a_disabled_scaler_is_no_contradiction(context: PyTorchTrialContext) -> None:
    context.wrap_scaler(torch.amp.GradScaler("cpu", enabled=False))
    model, optimizer = wrapped(context)
    context.configure_apex_amp(model, optimizer)
    assert context._apex_opt_level == "O1"


@pytest.mark.filterwarnings("ignore:NVIDIA Apex")
def test_a_loss_scale_that_is_no_number(on_gpu: PyTorchTrialContext) -> None:
    model, optimizer = wrapped(on_gpu)
    on_gpu.device = CUDA
    with pytest.raises(ValueError, match=r"loss_scale.*'auto'"):
        on_gpu.configure_apex_amp(model, optimizer, loss_scale="auto")

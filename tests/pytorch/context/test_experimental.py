from __future__ import annotations

import logging

import pytest
import torch
from torch import nn

from det_compat.errors import InvalidExperimentException
from det_compat.pytorch import PyTorchExperimentalContext, init
from tests.pytorch.libraries import Library, train, wrapped

# what torch says of determined's calls, and of a GPU that is not there
pytestmark = [
    pytest.mark.filterwarnings(r"ignore:`torch.cuda.amp.\w+\(args...\)` is deprecated"),
    pytest.mark.filterwarnings("ignore:torch.cuda.amp.GradScaler is enabled, but CUDA"),
    pytest.mark.filterwarnings("ignore:CUDA is not available or torch_xla is imported"),
]


def test_every_context_has_one(lib: Library) -> None:
    with lib.init() as context:
        assert isinstance(context.experimental, lib.pytorch.PyTorchExperimentalContext)
        assert context.experimental._auto_amp is False
        assert context.experimental._auto_to_device is True
        assert context.experimental._data_repro_checks_disabled is False


def test_reproducibility_checks_can_be_disabled(
    lib: Library, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "determined.pytorch")
    with lib.init() as context:
        context.experimental.disable_dataset_reproducibility_checks()
        assert context.experimental._data_repro_checks_disabled is True
    assert "disabled dataset reproducibility checks" in caplog.messages


def test_moving_batches_can_be_disabled(lib: Library, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "determined.pytorch")
    with lib.init() as context:
        context.experimental.disable_auto_to_device()
        assert context.experimental._auto_to_device is False
    assert "disabled automatically moving data to device" in caplog.messages


@pytest.mark.skipif(torch.cuda.is_available(), reason="trains in float32 where there is no GPU")
def test_use_amp_without_a_gpu_trains_in_float32(lib: Library) -> None:
    with lib.init() as context:
        context.experimental.use_amp()
        assert context.experimental._auto_amp is True
        assert context._scaler.is_enabled() is False
        model, optimizer = wrapped(context)
        assert model(torch.ones(1, 1)).dtype == torch.float32
        train(context, model, optimizer, 2.0, 3.0, clip_grads=lambda parameters: None)
        assert next(model.parameters()).item() == 1 - 2 - 3


def test_use_amp_is_called_once(lib: Library) -> None:
    with lib.init() as context:
        context.experimental.use_amp()
        with pytest.raises(lib.errors.InvalidExperimentException, match="once"):
            context.experimental.use_amp()


def test_use_amp_does_not_go_with_a_scaler_of_the_trial(lib: Library) -> None:
    with lib.init() as context:
        context.wrap_scaler(torch.amp.GradScaler("cpu"))
        with pytest.raises(lib.errors.InvalidExperimentException, match="wrap_scaler"):
            context.experimental.use_amp()
        assert context.experimental._auto_amp is False


def test_use_amp_comes_before_wrap_model(lib: Library) -> None:
    with lib.init() as context:
        context.wrap_model(nn.Linear(1, 1))
        with pytest.raises(lib.errors.InvalidExperimentException, match="before wrap_model"):
            context.experimental.use_amp()


def test_errors_name_the_calls() -> None:
    with init() as context:
        context.experimental.use_amp()
        with pytest.raises(
            InvalidExperimentException, match=r"wrap_scaler\(\) or use_amp\(\) once"
        ):
            context.wrap_scaler(torch.amp.GradScaler("cpu"))
    assert isinstance(context.experimental, PyTorchExperimentalContext)

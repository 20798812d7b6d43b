from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import nn

from det_compat.errors import InternalException, InvalidExperimentException
from det_compat.pytorch import (
    CheckpointLoadContext,
    PyTorchExperimentalContext,
    PyTorchTrialContext,
    init,
)
from det_compat.pytorch.context.settings import split_global_batch_size
from tests.pytorch.libraries import Library, train, wrapped

# what torch says of determined's calls, and of a GPU that is not there
pytestmark = [
    pytest.mark.filterwarnings(r"ignore:`torch.cuda.amp.\w+\(args...\)` is deprecated"),
    pytest.mark.filterwarnings("ignore:torch.cuda.amp.GradScaler is enabled, but CUDA"),
    pytest.mark.filterwarnings("ignore:CUDA is not available or torch_xla is imported"),
]

HPARAMS = {"global_batch_size": 8, "lr": 0.1, "net": {"layers": [1, 2]}, "none": None}
CONFIG = {"data": {"url": "s3://here"}, "searcher": {"metric": "loss"}}


@contextmanager
def context(**kwargs: Any) -> Iterator[PyTorchTrialContext]:
    with init(**kwargs) as context:
        yield context


def test_hyperparameters(lib: Library) -> None:
    with lib.init(hparams=HPARAMS) as context:
        assert context.get_hparams() is HPARAMS
        assert context.get_hparam("lr") == 0.1
        assert context.get_hparam("net") is HPARAMS["net"]
        assert context.get_hparam("none") is None


def test_an_unknown_hyperparameter(lib: Library) -> None:
    with lib.init(hparams=HPARAMS) as context, pytest.raises(ValueError, match="momentum"):
        context.get_hparam("momentum")


def test_the_error_lists_the_names_that_exist() -> None:
    with context(hparams=HPARAMS) as one, pytest.raises(ValueError) as caught:
        one.get_hparam("momentum")
    for name in HPARAMS:
        assert repr(name) in str(caught.value)


def test_names_that_are_no_strings_are_listed_too() -> None:
    with context(hparams={1: "x", "lr": 0.1}) as one:
        with pytest.raises(ValueError, match="'1', 'lr'"):
            one.get_hparam("momentum")
        with pytest.raises(ValueError, match="'1', 'lr'"):
            one.get_per_slot_batch_size()


@pytest.mark.parametrize("method", ["get_hparams", "get_hparam"])
def test_no_hyperparameters(lib: Library, method: str) -> None:
    args = ["lr"] if method == "get_hparam" else []
    with lib.init() as context, pytest.raises(ValueError, match="hparams"):
        getattr(context, method)(*args)


def test_no_hyperparameters_says_what_to_do() -> None:
    with context() as one, pytest.raises(ValueError, match=r"pass hparams=\{...\}"):
        one.get_hparam("lr")


def test_asking_for_global_batch_size_as_a_hyperparameter_warns(
    lib: Library, caplog: pytest.LogCaptureFixture
) -> None:
    with lib.init(hparams=HPARAMS) as context:
        caplog.clear()
        assert context.get_hparam("global_batch_size") == 8
    (record,) = (record for record in caplog.records if record.levelname == "WARNING")
    assert record.name == "determined.pytorch"
    assert "get_per_slot_batch_size" in record.message


def test_batch_sizes(lib: Library) -> None:
    with lib.init(hparams=HPARAMS) as context:
        assert context.get_global_batch_size() == 8
        assert context.get_per_slot_batch_size() == 8


@pytest.mark.parametrize("hparams", [None, {}, {"lr": 1}, {"global_batch_size": 0}])
@pytest.mark.parametrize("method", ["get_global_batch_size", "get_per_slot_batch_size"])
def test_no_batch_size(lib: Library, method: str, hparams: Any) -> None:
    with lib.init(hparams=hparams) as context, pytest.raises(ValueError, match="batch_size"):
        getattr(context, method)()


def test_no_batch_size_says_who_asked_and_what_there_is() -> None:
    with context(hparams={"lr": 1}) as one:
        with pytest.raises(ValueError, match=r"get_per_slot_batch_size\(\).*global_batch_size"):
            one.get_per_slot_batch_size()
        with pytest.raises(ValueError, match=r"get_global_batch_size\(\).*only \['lr'\].*Add it"):
            one.get_global_batch_size()
    with context() as one, pytest.raises(ValueError, match="no hparams were given"):
        one.get_global_batch_size()


def test_experiment_config(lib: Library) -> None:
    with lib.init(exp_conf=CONFIG) as context:
        assert context.get_experiment_config() is CONFIG
        assert context.get_data_config() == {"url": "s3://here"}
    with lib.init(exp_conf={"searcher": {}}) as context:
        assert context.get_data_config() == {}


@pytest.mark.parametrize("method", ["get_experiment_config", "get_data_config"])
def test_no_experiment_config(lib: Library, method: str) -> None:
    with lib.init() as context, pytest.raises(ValueError, match="exp_conf"):
        getattr(context, method)()


def test_a_local_run_has_no_seed(lib: Library) -> None:
    with lib.init() as context, pytest.raises(lib.errors.InternalException, match="seed"):
        context.get_trial_seed()


def test_the_seed_of_the_experiment_config() -> None:
    with context(exp_conf={"reproducibility": {"experiment_seed": 7}}) as one:
        assert one.get_trial_seed() == 7
    with context(exp_conf={"reproducibility": None}) as one, pytest.raises(InternalException) as no:
        one.get_trial_seed()
    assert "experiment_seed in exp_conf" in str(no.value)


def test_the_seed_of_a_loaded_trial(lib: Library) -> None:
    assert lib.pytorch.CheckpointLoadContext().get_trial_seed() == 0


def test_a_run_begins_at_the_first_batch(lib: Library) -> None:
    with lib.init() as context:
        assert context.get_initial_batch() == 0


def test_there_are_no_experiments_to_number() -> None:
    one = CheckpointLoadContext()
    assert (one.get_experiment_id(), one.get_trial_id()) == (0, 0)


# split_global_batch_size


@pytest.mark.parametrize(("size", "slots"), [(8, 1), (8, 2), (8, 8), (1, 1)])
def test_splits_as_determined_does(size: int, slots: int) -> None:
    split = split_global_batch_size({"global_batch_size": size}, slots)
    assert split == (size // slots, size)
    reference = pytest.importorskip("determined.util").calculate_batch_sizes
    assert split == reference({"global_batch_size": size}, slots, "PyTorchTrial")


@pytest.mark.parametrize("hparams", [None, {}, {"lr": 1}, {"global_batch_size": None}])
def test_nothing_to_split(hparams: Any) -> None:
    assert split_global_batch_size(hparams, 2) == (None, None)


@pytest.mark.parametrize("size", [8.0, "8", [8]])
def test_it_must_be_an_integer(size: Any) -> None:
    with pytest.raises(InvalidExperimentException) as caught:
        split_global_batch_size({"global_batch_size": size}, 2)
    for told in ("global_batch_size", "integer", repr(size), type(size).__name__):
        assert told in str(caught.value)
    errors = pytest.importorskip("determined.errors")
    with pytest.raises(errors.InvalidExperimentException):
        pytest.importorskip("determined.util").calculate_batch_sizes(
            {"global_batch_size": size}, 2, "PyTorchTrial"
        )


def test_true_is_no_batch_size() -> None:
    with pytest.raises(InvalidExperimentException, match="got True"):
        split_global_batch_size({"global_batch_size": True}, 1)


@pytest.mark.parametrize(("size", "example"), [(7, 6), (1, 2), (101, 100)])
def test_it_must_divide_by_the_slots(size: int, example: int) -> None:
    with pytest.raises(InvalidExperimentException) as caught:
        split_global_batch_size({"global_batch_size": size}, 2)
    assert f"global_batch_size={size}" in str(caught.value)
    assert "multiple of 2" in str(caught.value)
    assert str(caught.value).endswith(f"for example {example}.")


@pytest.mark.parametrize("hparams", [[1], "lr", 3])
def test_hparams_are_a_dict(hparams: Any) -> None:
    with pytest.raises(TypeError, match="hparams must be a dict"):
        split_global_batch_size(hparams, 1)


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
@pytest.mark.filterwarnings("ignore:User provided device_type of 'cuda'")  # torch 2.4
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


QUESTIONS = ["is_epoch_start", "is_epoch_end", "current_train_epoch", "current_train_batch"]


@pytest.mark.parametrize("question", QUESTIONS)
def test_there_is_no_progress_before_training(lib: Library, question: str) -> None:
    with lib.init() as context, pytest.raises(lib.errors.InternalException, match=r"(?i)training"):
        getattr(context, question)()


@pytest.mark.parametrize("question", QUESTIONS[:3])
def test_there_are_no_epochs_without_a_loader(lib: Library, question: str) -> None:
    with lib.init() as context:
        context._current_batch_idx = 0
        assert context.current_train_batch() == 0
        with pytest.raises(lib.errors.InternalException, match=r"(?i)loader"):
            getattr(context, question)()


def test_progress_in_epochs_of_three_batches(lib: Library) -> None:
    with lib.init() as context:
        context._epoch_len = 3
        seen = []
        for batch in range(7):
            context._current_batch_idx = batch
            seen.append([getattr(context, question)() for question in QUESTIONS])
    start, end, epoch, batch_idx = zip(*seen, strict=True)
    assert start == (True, False, False, True, False, False, True)
    assert end == (False, False, True, False, False, True, False)
    assert epoch == (0, 0, 0, 1, 1, 1, 2)
    assert batch_idx == tuple(range(7))


def test_stop_request(lib: Library, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "determined.pytorch")
    with lib.init() as context:
        assert context.get_stop_requested() is False
        context.set_stop_requested(True)
        assert context.get_stop_requested() is True
        context.set_stop_requested(False)
        assert context.get_stop_requested() is False
    assert "stop" in caplog.text


@pytest.mark.parametrize("value", [1, None, "yes"])
def test_a_stop_request_is_a_bool(lib: Library, value: Any) -> None:
    with lib.init() as context:
        with pytest.raises(AssertionError, match="bool"):
            context.set_stop_requested(value)
        assert context.get_stop_requested() is False


def test_the_error_shows_what_it_got(ours: Library) -> None:
    with ours.init() as context, pytest.raises(AssertionError, match="got 'yes'"):
        context.set_stop_requested("yes")

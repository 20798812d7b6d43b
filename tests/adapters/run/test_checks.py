from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import IterableDataset

from det_compat import to_lightning
from det_compat.adapters.module import TrialModule
from det_compat.adapters.run.checks import check_trial_class
from det_compat.errors import InvalidExperimentException
from det_compat.pytorch import DataLoader, LRScheduler, PyTorchTrial
from tests.adapters.trials import Linear, trainer


def error_of(trial_cls: type, kind: type[Exception] = InvalidExperimentException) -> str:
    """The error of a fit, which must come before any training."""
    module = to_lightning(trial_cls)(hparams={})
    with pytest.raises(kind) as raised:
        trainer().fit(module)
    if module._run is not None:
        assert module.trial.trained == []
    return str(raised.value)


class Unfinished(PyTorchTrial):
    """Defines some of what it must."""

    def build_training_data_loader(self) -> Any: ...

    def build_validation_data_loader(self) -> Any: ...


class WithoutInit(Unfinished):
    """Defines all but one."""

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any: ...


class Plain:
    """No trial."""


def function(context: Any) -> None: ...


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (function, "expected a PyTorchTrial class, got <function function.*not an instance"),
        (Linear.__new__(Linear), "expected a PyTorchTrial class, got <.*Linear object"),
        (None, "expected a PyTorchTrial class, got None"),
        (
            Plain,
            r"test_checks.Plain is no PyTorchTrial: it does not define train_batch, "
            "build_training_data_loader, build_validation_data_loader, for the context API .*; "
            "build_model, optimizer, train_batch, for Determined 0.12; .* for PEDL",
        ),
        (nn.Linear, "torch.nn.modules.linear.Linear is no PyTorchTrial"),
        (PyTorchTrial, "PyTorchTrial is no PyTorchTrial: it does not define train_batch"),
        (Unfinished, "Unfinished is no PyTorchTrial: it does not define train_batch, for the cont"),
        (WithoutInit, "WithoutInit cannot be built: it does not define __init__"),
    ],
)
def test_what_is_no_trial_class(given: Any, message: str) -> None:
    for make in (check_trial_class, to_lightning, TrialModule):
        with pytest.raises(TypeError, match=message):
            make(given)


def test_a_trial_may_inherit_everything_from_a_mixin() -> None:
    class Mixin:
        train_batch = Linear.train_batch
        evaluate_batch = Linear.evaluate_batch
        build_training_data_loader = Linear.build_training_data_loader
        build_validation_data_loader = Linear.build_validation_data_loader

    class Trial(Mixin, PyTorchTrial):  # type: ignore[misc]
        __init__ = Linear.__init__
        prepare, finish, net = Linear.prepare, Linear.finish, Linear.net
        hparam, sgd, loss = Linear.hparam, Linear.sgd, Linear.loss
        batch_size = Linear.batch_size

    module = to_lightning(Trial)(hparams={})
    trainer().fit(module)
    assert module.trial.trained == [0, 1, 2, 3]
    assert module.trial.evaluated == [0, 1]


def test_no_model_is_wrapped() -> None:
    class Bare(Linear):
        def __init__(self, context: Any) -> None:
            parameter = nn.Parameter(torch.zeros(1))
            context.wrap_optimizer(torch.optim.SGD([parameter], lr=0.1))

        trained = ()

    assert "Bare has no model: call context.wrap_model()" in error_of_bare(Bare)


def test_no_optimizer_is_wrapped() -> None:
    class Bare(Linear):
        def __init__(self, context: Any) -> None:
            context.wrap_model(nn.Linear(1, 1))

    assert "Bare has no optimizer: call context.wrap_optimizer()" in error_of_bare(Bare)


def error_of_bare(trial_cls: type) -> str:
    with pytest.raises(InvalidExperimentException) as raised:
        trainer().fit(to_lightning(trial_cls)(hparams={}))
    return str(raised.value)


def test_a_scheduler_whose_optimizer_is_not_wrapped() -> None:
    class Other(Linear):
        def finish(self) -> None:
            other = torch.optim.Adam(self.model.parameters())
            scheduler = torch.optim.lr_scheduler.StepLR(other, 1)
            self.context.wrap_lr_scheduler(scheduler, LRScheduler.StepMode.STEP_EVERY_BATCH)

    message = error_of(Other)
    assert "the optimizer (Adam) of the LR scheduler StepLR is not wrapped" in message
    assert "call context.wrap_optimizer()" in message


def test_an_optimizer_that_is_not_wrapped_is_stepped() -> None:
    class Other(Linear):
        def train_batch(self, *args: Any, **kwargs: Any) -> Any:
            self.context.step_optimizer(torch.optim.Adam(self.model.parameters()))

    assert "step_optimizer() got an optimizer (Adam) that is not wrapped" in error_of(Other)


def test_both_ways_to_evaluate() -> None:
    class Both(Linear):
        def evaluate_full_dataset(self, data_loader: Any) -> dict[str, Any]:
            return {}

    message = error_of(Both)
    assert "Both must define exactly one of evaluate_batch() and evaluate_full_dataset()" in message
    assert "defines both" in message


def test_neither_way_to_evaluate() -> None:
    class Neither(Linear):
        evaluate_batch = PyTorchTrial.evaluate_batch  # type: ignore[assignment]

    assert "Neither must define exactly one" in error_of(Neither)
    assert "defines neither" in error_of(Neither)


def test_an_iterable_dataset_in_a_loader() -> None:
    class Stream(IterableDataset[int]):
        def __iter__(self) -> Any:
            return iter(range(3))

    class Streams(Linear):
        def build_training_data_loader(self) -> Any:
            return DataLoader(Stream())

    message = error_of(Streams, ValueError)
    assert "IterableDataset" in message
    assert "disable_dataset_reproducibility_checks()" in message


@pytest.mark.parametrize("method", ["build_training_data_loader", "build_validation_data_loader"])
def test_a_plain_torch_loader_is_refused(method: str) -> None:
    loader = torch.utils.data.DataLoader([1, 2])  # type: ignore[arg-type]
    trial_cls = type("PlainLoader", (Linear,), {method: lambda self: loader})
    message = error_of(trial_cls, RuntimeError)
    assert f"{method}() returned DataLoader" in message
    assert "context.experimental.disable_dataset_reproducibility_checks()" in message


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("build_training_data_loader", "the training loader is empty: build_training_data_loader"),
        ("build_validation_data_loader", "the validation loader is empty on rank 0"),
    ],
)
def test_an_empty_loader(method: str, message: str) -> None:
    trial_cls = type("Empty", (Linear,), {method: lambda self: DataLoader([], batch_size=2)})
    assert message in error_of(trial_cls, RuntimeError)

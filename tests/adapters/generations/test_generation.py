from __future__ import annotations

import logging
from typing import Any

import pytest

from det_compat import to_lightning
from det_compat.adapters.generations.generation import generation_of, in_context_api
from det_compat.catalog.generations import Generation
from det_compat.pytorch import PyTorchTrial
from tests.adapters.trials import Linear


class Loaders:
    def build_training_data_loader(self) -> Any: ...

    def build_validation_data_loader(self) -> Any: ...


class Old(Loaders, PyTorchTrial):
    """Determined 0.12's, as most were written."""

    def __init__(self, context: Any) -> None: ...

    def build_model(self) -> Any: ...

    def optimizer(self, model: Any) -> Any: ...

    def train_batch(self, batch: Any, model: Any, epoch_idx: int, batch_idx: int) -> Any: ...


class OldWithoutBase(Loaders):
    build_model, optimizer, train_batch = Old.build_model, Old.optimizer, Old.train_batch

    def __init__(self, trial_context: Any) -> None: ...


class OldWithKeywords(Old):
    def train_batch(self, batch: Any, **kwargs: Any) -> Any: ...


class OldEarliest(PyTorchTrial):
    """Its loaders are functions of its module."""

    train_batch, optimizer = Old.train_batch, Old.optimizer

    def __init__(self, context: Any) -> None: ...

    def build_model(self, hparams: Any) -> Any: ...


class Transitional(Loaders, PyTorchTrial):
    """0.12.12's, which wraps by itself and has a helper with an old name."""

    train_batch = Old.train_batch

    def __init__(self, context: Any) -> None:
        self.model = context.Model(self.build_model())

    def build_model(self) -> Any: ...


class WrapsInAHelper(Loaders, PyTorchTrial):
    train_batch = Old.train_batch

    def __init__(self, context: Any) -> None:
        set_up(self, context)


def set_up(trial: Any, context: Any) -> None: ...


class ContextWithHelpers(Linear):
    """The context API's, with helpers of the old names."""

    def build_model(self) -> Any: ...

    def optimizer(self, model: Any) -> Any: ...

    def losses(self, predictions: Any, labels: Any) -> Any: ...


class ContextWithKeywords(Linear):
    def train_batch(self, batch: Any, **kwargs: Any) -> Any: ...


class Standard:
    def build_model(self, hparams: Any) -> Any: ...

    def losses(self, predictions: Any, labels: Any) -> Any: ...

    def optimizer(self, model: Any) -> Any: ...

    def batch_size(self) -> int: ...


class Pedl:
    build_model, optimizer, train_batch = Old.build_model, Old.optimizer, Old.train_batch


class PedlWithHparams(Pedl):
    def __init__(self, hparams: Any) -> None: ...


@pytest.mark.parametrize(
    ("trial_cls", "generation"),
    [
        (Old, Generation.DETERMINED_0_12),
        (OldWithoutBase, Generation.DETERMINED_0_12),
        (OldWithKeywords, Generation.DETERMINED_0_12),
        (OldEarliest, Generation.DETERMINED_0_12),
        (Transitional, Generation.DETERMINED_0_12),
        (WrapsInAHelper, Generation.DETERMINED_0_12),
        (Linear, Generation.CONTEXT),
        (ContextWithHelpers, Generation.CONTEXT),
        (ContextWithKeywords, Generation.CONTEXT),
        (Standard, Generation.PEDL_STANDARD),
        (Pedl, Generation.PEDL),
        (PedlWithHparams, Generation.PEDL),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_the_class_tells(trial_cls: type, generation: Generation) -> None:
    assert generation_of(trial_cls) is generation


def test_the_log_says_which(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "determined.pytorch"):
        in_context_api(Old)
    assert [record.getMessage() for record in caplog.records] == [
        f"{__name__}.Old is a trial of Determined 0.12"
    ]


def test_the_context_api_is_left_as_it_is() -> None:
    assert in_context_api(Linear) is Linear


def test_the_class_of_the_user_is_left_as_it_was() -> None:
    before = dict(vars(OldEarliest))
    adapted = in_context_api(OldEarliest, make_data_loaders=print)
    assert dict(vars(OldEarliest)) == before
    assert adapted.__name__ == "OldEarliest" and not issubclass(adapted, OldEarliest)


def test_loader_functions_are_for_trials_without_loader_methods() -> None:
    with pytest.raises(TypeError, match=r"Linear has loader methods.*leave make_data_loaders"):
        in_context_api(Linear, make_data_loaders=print)


class WithoutOptimizer(OldWithoutBase):
    optimizer = None


class WithoutModel(OldWithoutBase):
    build_model = None


class OneLoader(OldWithoutBase):
    build_validation_data_loader = None


class StandardWithoutOptimizer(Standard):
    optimizer = None


class Mixed(Old):
    def __init__(self, context: Any) -> None:
        self.model = context.wrap_model(self.build_model())


class MixedInANestedFunction(Old):
    def train_batch(self, batch: Any, model: Any, epoch_idx: int, batch_idx: int) -> Any:
        def step() -> None:
            self.context.step_optimizer(self.opt)

        step()


@pytest.mark.parametrize(
    ("trial_cls", "message"),
    [
        (WithoutOptimizer, "trial of Determined 0.12 and does not define optimizer$"),
        (WithoutModel, "trial of Determined 0.12 and does not define build_model$"),
        (OneLoader, "Determined 0.12 and does not define build_validation_data_loader$"),
        (StandardWithoutOptimizer, "PEDL's Standard .* does not define optimizer$"),
        (Mixed, "Mixed mixes generations: .* Determined 0.12, wrap_model of the context API"),
        (MixedInANestedFunction, "mixes generations: .* step_optimizer of the context API"),
        (Loaders, "no PyTorchTrial: it does not define train_batch, for the context API .*; "),
    ],
)
def test_what_is_missing_or_mixed(trial_cls: type, message: str) -> None:
    for find in (generation_of, to_lightning):
        with pytest.raises(TypeError, match=message):
            find(trial_cls)

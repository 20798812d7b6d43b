"""Trial classes whose generation takes a close look, for those who tell it from class or source."""

from __future__ import annotations

from typing import Any

from det_compat.pedl.frameworks import pytorch as pedl
from det_compat.pytorch import PyTorchTrial


class Built(PyTorchTrial):
    """Determined 0.12's, as most were written."""

    def __init__(self, context: Any) -> None: ...

    def build_model(self) -> Any: ...

    def optimizer(self, model: Any) -> Any: ...

    def train_batch(self, batch: Any, model: Any, epoch_idx: int, batch_idx: int) -> Any: ...

    def build_training_data_loader(self) -> Any: ...

    def build_validation_data_loader(self) -> Any: ...


class HasALocalVariable(Built):
    def train_batch(self, batch: Any, model: Any, epoch_idx: int, batch_idx: int) -> Any:
        wrap_model = step_optimizer = None
        return wrap_model, step_optimizer


class HasAnAnnotation(Built):
    wrap_optimizer: Any = None

    def build_model(self, kind: wrap_model = None) -> Any: ...  # noqa: F821 (never evaluated)


class Wraps(Built):
    def helper(self) -> Any:
        return [self.context.wrap_model(model) for model in ()]


class WrapsInALambda(Built):
    def helper(self) -> Any:
        return lambda model: self.context.wrap_model(model)


class WrapsInAProperty(Built):
    @property
    def wrapped(self) -> Any:
        return self.context.wrap_model(None)


class NamesTheContext(PyTorchTrial):
    """A context that only goes by name is none of a PEDL trial's."""

    build_model, optimizer, train_batch = Built.build_model, Built.optimizer, Built.train_batch

    def __init__(self, *, context: Any) -> None: ...


class TakesAnything(NamesTheContext):
    def __init__(self, *args: Any) -> None: ...


class OfPedl(pedl.PyTorchTrial):
    def __init__(self, context: Any) -> None: ...

    build_model, optimizer, train_batch = Built.build_model, Built.optimizer, Built.train_batch
    build_training_data_loader = Built.build_training_data_loader
    build_validation_data_loader = Built.build_validation_data_loader


class Standard(pedl.PyTorchTrial):
    def losses(self, predictions: Any, labels: Any) -> Any: ...

    build_model, optimizer = Built.build_model, Built.optimizer


class StandardNoMore(Standard):
    train_batch = Built.train_batch


class Borrowed(PyTorchTrial):
    train_batch = Built.train_batch
    __init__, build_model = Built.__init__, Built.build_model
    optimizer = staticmethod(dict)
    build_training_data_loader = Built.build_training_data_loader
    build_validation_data_loader = Built.build_validation_data_loader


class TakenBack(Built):
    optimizer = None


class LoadersTakenBack(Built):
    build_training_data_loader = build_validation_data_loader = None


class IsProperty(Built):
    @property
    def build_model(self) -> Any: ...


class ModelWithADefault(Built):
    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int, model: Any = None) -> Any: ...


class ModelByKeyword(Built):
    def train_batch(
        self, batch: Any, epoch_idx: int, batch_idx: int, *, model: Any = None
    ) -> Any: ...


class Keywords(Built):
    def train_batch(self, batch: Any, **kwargs: Any) -> Any: ...


class KeywordsOfTheContextApi(Keywords):
    def step(self) -> None:
        self.context.step_optimizer(None)


class SetsInInit(PyTorchTrial):
    train_batch = Built.train_batch

    def __init__(self, context: Any) -> None:
        self.build_model = self.optimizer = self.build_training_data_loader = None
        self.build_validation_data_loader = None


class WrapsByItself(PyTorchTrial):
    """0.12.12's, with a helper of an old name."""

    train_batch, build_training_data_loader = Built.train_batch, Built.build_training_data_loader
    build_validation_data_loader = Built.build_validation_data_loader

    def __init__(self, context: Any) -> None:
        self.model = context._Model(self.build_model())

    def build_model(self) -> Any: ...


class Incomplete(PyTorchTrial):
    train_batch, build_model = Built.train_batch, Built.build_model

    def __init__(self, context: Any) -> None: ...

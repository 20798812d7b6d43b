"""Trials of Determined 0.12: ``build_model``, ``optimizer``, ``create_lr_scheduler``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, ClassVar

from det_compat.adapters.adapted import AdaptedTrial
from det_compat.adapters.pedl_data import CONTRACT, download, find_function, make_loaders
from det_compat.adapters.trial_class import (
    concrete,
    defines,
    full_name,
    init_parameter,
    own_init,
)
from det_compat.errors import InvalidExperimentException
from det_compat.pedl._run import Run
from det_compat.pytorch._overrides import takes_parameter


class Determined012(AdaptedTrial):
    """A trial of Determined 0.12, whose methods are given the model.

    ``train_batch`` of one of 0.12.12's that wraps models itself is given the first of them, and
    calls backward and step itself.
    """

    builds_itself: ClassVar[bool] = False

    def make_trial(self, **kwargs: Any) -> Any:
        trial_cls = concrete(self.trial_cls)
        init = own_init(trial_cls)
        if init is not None and takes_parameter(init, "hparams"):
            kwargs["hparams"] = self.hparams
        if init_parameter(trial_cls) in (None, "hparams"):
            return trial_cls(**kwargs)
        return trial_cls(self.context, **kwargs)

    def set_up(self) -> None:
        # Looked up once: it takes long, for a batch.
        self._taken: dict[str, tuple[bool, bool]] = {}
        if self.builds_itself:
            self._adopt()
        else:
            super().set_up()
        if self.defines("evaluate_batch"):
            self.evaluate_batch = self._evaluate_batch
        if self.defines("evaluate_full_dataset"):
            self.evaluate_full_dataset = self._evaluate_full_dataset
        if self.defines("get_batch_length"):
            self.get_batch_length = self.inner.get_batch_length

    def _adopt(self) -> None:
        if not self.context.models:
            raise InvalidExperimentException(
                f"{full_name(self.trial_cls)} has no model: define build_model() and optimizer(), "
                "or call context.wrap_model() and context.wrap_optimizer() in __init__"
            )
        self.model = self.context.models[0]

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
        if self.builds_itself:
            for callback in self._callbacks.values():
                callback.begin_step()
            return self.training_metrics_of(batch, epoch_idx, batch_idx)
        return super().train_batch(batch, epoch_idx, batch_idx)

    def training_metrics_of(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
        return self._call(
            "train_batch", batch=batch, model=self.model, epoch_idx=epoch_idx, batch_idx=batch_idx
        )

    def _evaluate_batch(self, batch: Any) -> Any:
        return self._call("evaluate_batch", batch=batch, model=self.model)

    def _evaluate_full_dataset(self, data_loader: Any) -> Any:
        return self._call("evaluate_full_dataset", data_loader=data_loader, model=self.model)

    def _call(self, name: str, **kwargs: Any) -> Any:
        method = getattr(self.inner, name)
        if name not in self._taken:
            self._taken[name] = _taken(method)
        model, hparams = self._taken[name]
        if not model:
            del kwargs["model"]
        if hparams:
            kwargs["hparams"] = self.hparams
        return method(**kwargs)


def _taken(method: Callable[..., Any]) -> tuple[bool, bool]:
    """Whether ``method`` takes ``model``, and whether it takes ``hparams``."""
    parameters = inspect.signature(method).parameters
    anything = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    return anything or "model" in parameters, "hparams" in parameters


class EarlyDetermined012(Determined012):
    """A trial of Determined 0.12 whose loaders are functions of a module, as in PEDL."""

    given: ClassVar[dict[str, Callable[..., Any] | None]] = {}

    def make_trial(self, **kwargs: Any) -> Any:
        self._run = Run(self.hparams, self.context._exp_conf or {})
        self._validation_data: Any = None
        found = {name: self._function(name) for name in ("make_data_loaders", "download_data")}
        self._make_data_loaders = found["make_data_loaders"]
        if self._make_data_loaders is None:
            raise TypeError(
                f"{full_name(self.trial_cls)} has no data: define build_training_data_loader() and "
                f"build_validation_data_loader(), or {CONTRACT} in its module, or pass "
                "make_data_loaders=... to to_lightning()"
            )
        if found["download_data"] is not None:
            self._run.data_dir = download(
                found["download_data"], self._run, self.context.distributed
            )
        return super().make_trial(**kwargs)

    def _function(self, name: str) -> Callable[..., Any] | None:
        return find_function(name, self.trial_cls, self.given.get(name), self._run.exp_conf)

    def training_data(self) -> Any:
        training, self._validation_data = self._data()
        return training

    def validation_data(self) -> Any:
        if self._validation_data is None:
            return self._data()[1]
        data, self._validation_data = self._validation_data, None
        return data

    def _data(self) -> tuple[Any, Any]:
        assert self._make_data_loaders is not None
        return make_loaders(self._make_data_loaders, self._run)


def in_context_api(
    trial_cls: type,
    make_data_loaders: Callable[..., Any] | None = None,
    download_data: Callable[..., Any] | None = None,
) -> type:
    """A class of the context API around a trial class of Determined 0.12."""
    builds_itself = not (defines(trial_cls, "build_model") and defines(trial_cls, "optimizer"))
    members: dict[str, Any] = {"trial_cls": trial_cls, "builds_itself": builds_itself}
    if defines(trial_cls, "build_training_data_loader"):
        return type(trial_cls.__name__, (Determined012,), members)
    members["given"] = {"make_data_loaders": make_data_loaders, "download_data": download_data}
    return type(trial_cls.__name__, (EarlyDetermined012,), members)

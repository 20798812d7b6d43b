"""PEDL trials of the later form, brought into the context API through that of Determined 0.12.

What PEDL added to it: no context, hyperparameters from ``pedl.get_hyperparameter``, and loader
functions in place of loader methods.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from det_compat.adapters import determined_0_12
from det_compat.adapters.pedl_data import (
    CONTRACT,
    call_with,
    download,
    find_function,
    make_loaders,
)
from det_compat.adapters.trial_class import concrete, defines, full_name, own_init
from det_compat.errors import InvalidExperimentException
from det_compat.pedl import _run
from det_compat.pytorch import PyTorchCallback, PyTorchTrialContext, Reducer

logger = logging.getLogger("determined.pytorch")


def in_context_api(
    trial_cls: type,
    make_data_loaders: Callable[..., Any] | None = None,
    download_data: Callable[..., Any] | None = None,
) -> type:
    """A trial class of the context API around a PEDL trial class."""
    return adapted(PedlTrial, trial_cls, make_data_loaders, download_data)


def adapted(
    base: type[PedlTrial],
    trial_cls: type,
    make_data_loaders: Callable[..., Any] | None,
    download_data: Callable[..., Any] | None,
) -> type:
    """A trial class of the context API around ``base`` for ``trial_cls``."""
    members = {
        "trial_cls": trial_cls,
        "given": {"make_data_loaders": make_data_loaders, "download_data": download_data},
        "__module__": trial_cls.__module__,
        "__qualname__": trial_cls.__qualname__,
    }
    for name in base.forwarded:
        if defines(trial_cls, name):
            members[name] = getattr(base, f"_{name}")
    return determined_0_12.in_context_api(type(trial_cls.__name__, (base,), members))


class PedlTrial:
    """A trial as Determined 0.12 had it, around one of PEDL's, which is ``inner``."""

    trial_cls: type
    given: dict[str, Callable[..., Any] | None]
    #: Methods that are there if the trial has them.
    forwarded: tuple[str, ...] = ("evaluate_batch", "evaluate_full_dataset")

    def __init__(self, context: PyTorchTrialContext) -> None:
        self.run = _run.Run(context._hparams or {}, context._exp_conf or {})
        self._made: tuple[Any, Any] | None = None
        with self._going_on():
            self._find_data(context)
            self.inner = self._build()

    def _find_data(self, context: PyTorchTrialContext) -> None:
        found = {
            name: find_function(name, self.trial_cls, given, self.run.exp_conf)
            for name, given in self.given.items()
        }
        if found["make_data_loaders"] is None:
            raise InvalidExperimentException(
                f"{full_name(self.trial_cls)} has no data: PEDL's contract is {CONTRACT} in the "
                "trial's module, or in the one that the config's entrypoints name "
                "(data_loaders_function: module:function), or passed as make_data_loaders=... to "
                "to_lightning()"
            )
        self._make_data_loaders = found["make_data_loaders"]
        if found["download_data"] is not None:
            self.run.data_dir = download(found["download_data"], self.run, context.distributed)
            _run.tell_processes()

    def _build(self) -> Any:
        trial_cls = concrete(self.trial_cls)
        if own_init(trial_cls) is None:
            return trial_cls()
        return call_with(trial_cls, (self.run.hparams,))

    def _going_on(self) -> AbstractContextManager[None]:
        return _run.going_on(self.run)

    def _ask(self, name: str, *given: Any) -> Any:
        """Call a method of the trial, with hparams if it takes them."""
        with self._going_on():
            return call_with(getattr(self.inner, name), (self.run.hparams,), *given)

    def build_model(self) -> Any:
        return self._ask("build_model")

    def optimizer(self, model: Any) -> Any:
        return self._ask("optimizer", model)

    def create_lr_scheduler(self, optimizer: Any) -> Any:
        if not hasattr(self.inner, "create_lr_scheduler"):
            return None
        return self._ask("create_lr_scheduler", optimizer)

    def build_callbacks(self) -> dict[str, Any]:
        with self._going_on():
            own = self.inner.build_callbacks() if hasattr(self.inner, "build_callbacks") else {}
        # First to start up and last to shut down: the others may ask for hyperparameters.
        return {"pedl": RunCallback(self.run), **own}

    def build_training_data_loader(self) -> Any:
        self._made = self._make_loaders()
        return self._made[0]

    def build_validation_data_loader(self) -> Any:
        # Both come from one call, unless only a validation was asked for.
        made = self._made or self._make_loaders()
        self._made = None
        return made[1]

    def _make_loaders(self) -> tuple[Any, Any]:
        with self._going_on():
            return make_loaders(self._make_data_loaders, self.run)

    def train_batch(self, batch: Any, model: Any, epoch_idx: int, batch_idx: int) -> Any:
        return self.inner.train_batch(
            batch=batch, model=model, epoch_idx=epoch_idx, batch_idx=batch_idx
        )

    def _evaluate_batch(self, batch: Any, model: Any) -> Any:
        return self.inner.evaluate_batch(batch=batch, model=model)

    def _evaluate_full_dataset(self, data_loader: Any, model: Any) -> Any:
        return self.inner.evaluate_full_dataset(data_loader=data_loader, model=model)

    def evaluation_reducer(self) -> Any:
        ask = getattr(self.inner, "evaluation_reducer", None)
        return Reducer.AVG if ask is None else ask()


class RunCallback(PyTorchCallback):
    """Says when the run is going on, for ``pedl.get_hyperparameter``."""

    def __init__(self, run: _run.Run) -> None:
        self._run = run

    def on_trial_startup(self, first_batch_idx: int, checkpoint_uuid: str | None) -> None:
        _run.begin(self._run)

    def on_trial_shutdown(self) -> None:
        _run.end(self._run)

"""A trial of an older generation, as a trial of the context API."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import torch
from torch import nn

from det_compat.adapters.generations.old_callbacks import OldCallback
from det_compat.adapters.generations.trial_class import full_name
from det_compat.errors import InvalidExperimentException
from det_compat.pytorch.context.steering import Steering
from det_compat.pytorch.context.trial_context import PyTorchTrialContext
from det_compat.pytorch.lr_scheduler import settings_of, stepping_of
from det_compat.pytorch.overrides import is_user_code
from det_compat.pytorch.reducer import Reducer

logger = logging.getLogger("determined.pytorch")

_ADAPTERS = "det_compat.adapters"
# PEDL and the first releases of Determined 0.12 clipped gradients as these hyperparameters asked.
_CLIPS: dict[str, Callable[..., Any]] = {
    "clip_grad_l2_norm": torch.nn.utils.clip_grad_norm_,
    "clip_grad_val": torch.nn.utils.clip_grad_value_,
}


class LoaderFunctions(NamedTuple):
    """PEDL's functions that load data, where they were given."""

    make_data_loaders: Callable[..., Any] | None = None
    download_data: Callable[..., Any] | None = None


NO_FUNCTIONS = LoaderFunctions()


class AdaptedTrial:
    """One model and one optimizer that the library trains: what older generations had.

    What happens, and in which order, is what the same trial would do in the context API::

        __init__:     make_trial, build_model, optimizer(model), wrap_model, wrap_optimizer,
                      create_lr_scheduler(optimizer), wrap_lr_scheduler
        train_batch:  training_metrics_of(batch), context.backward(loss), context.step_optimizer
                      (with on_before_optimizer_step of the callbacks, or without any the clipping
                      that hyperparameters ask for)

    Subclasses say how the trial is made, what it computes of a batch and where its loaders are. A
    method that evaluates is None where the trial does not define it.

    Attributes:
        trial_cls: the class of the user's own trial.
        loader_functions: its functions that load data.
        inner: the user's own trial.
        model: its model, wrapped.
    """

    trial_cls: ClassVar[type]
    loader_functions: ClassVar[LoaderFunctions]
    evaluate_batch: Callable[..., Any] | None = None
    evaluate_full_dataset: Callable[..., Any] | None = None

    def __init__(self, context: PyTorchTrialContext, **kwargs: Any) -> None:
        self.context = context
        self.steering = Steering(context)
        self.inner = self.make_trial(**kwargs)
        self.model: Any = None
        self.optimizer: Any = None
        self._callbacks: dict[str, OldCallback] = {}
        self._scheduler_waits = False
        self.set_up()

    @classmethod
    def of_class(cls, trial_cls: type, loader_functions: LoaderFunctions) -> type:
        """A class of the context API that is this adapter for ``trial_cls`` and its functions."""
        members = {"trial_cls": trial_cls, "loader_functions": loader_functions}
        return type(trial_cls.__name__, (cls,), members)

    @classmethod
    def around(cls, trial: Any, context: PyTorchTrialContext) -> AdaptedTrial:
        """An adapter of a trial that is built already."""
        made = type(cls.__name__, (cls,), {"make_trial": lambda self: trial})
        adapter: AdaptedTrial = made(context)
        return adapter

    @property
    def hparams(self) -> dict[str, Any]:
        """The hyperparameters, ``{}`` if none were given."""
        return self.steering.hparams or {}

    # For subclasses

    def make_trial(self, **kwargs: Any) -> Any:
        """The user's trial."""
        raise NotImplementedError

    def training_metrics_of(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
        """Compute what is to be reported of a batch: a dict with "loss", or the loss itself."""
        raise NotImplementedError

    def validation_data(self) -> Any:
        """The validation data, which is asked for after the training data."""
        return self.inner.build_validation_data_loader()

    # The context API

    def build_training_data_loader(self) -> Any:
        """The training data."""
        return self.inner.build_training_data_loader()

    def build_validation_data_loader(self) -> Any:
        """The validation data; a scheduler that waits for the data is made now."""
        data = self.validation_data()
        if self._scheduler_waits:
            self._scheduler_waits = False
            self._set_up_lr_scheduler()
        return data

    def set_up(self) -> None:
        """Build and wrap model, optimizer and scheduler."""
        self._clip_by_hparams = clip_by_hparams(self.hparams)
        model, context = self._built_model(), self.context
        if self.steering.is_trained:
            model = model.to(context.device)
        optimizer = self._built_optimizer(model)
        self.model = context.wrap_model(model)
        self.optimizer = context.wrap_optimizer(optimizer)
        # Until 0.12.10 the context had these attributes, beside get_model() and the like.
        vars(context).update(model=self.model, optimizer=self.optimizer, lr_scheduler=None)
        self._set_up_mixed_precision()
        settings = settings_of(optimizer)
        try:
            self._set_up_lr_scheduler()
        except AttributeError as error:
            if error.obj is not self.inner:
                raise
            # Up to 0.12.10 the loaders came first, and left on the trial what it is asking for.
            self._scheduler_waits = True
            for group, before in zip(optimizer.param_groups, settings, strict=True):
                # A scheduler that is given up has changed the optimizer in its constructor.
                params = group["params"]
                group.clear()
                group.update({"params": params, **before})

    def _built_model(self) -> nn.Module:
        model = with_hparams(self.inner.build_model, self.hparams)
        if not isinstance(model, nn.Module):
            raise TypeError(
                f"{full_name(self.trial_cls)}.build_model() must return a torch.nn.Module, got "
                f"{type(model).__name__}"
            )
        return model

    def _built_optimizer(self, model: nn.Module) -> Any:
        optimizer = with_hparams(self.inner.optimizer, self.hparams, model)
        if not hasattr(optimizer, "param_groups"):
            raise TypeError(
                f"{full_name(self.trial_cls)}.optimizer(model) must return an optimizer, got "
                f"{type(optimizer).__name__}"
            )
        return optimizer

    def _set_up_mixed_precision(self) -> None:
        level = ((self.steering.exp_conf or {}).get("optimizations") or {}).get("mixed_precision")
        if level not in (None, "O0"):
            self.context.configure_apex_amp(
                models=self.model, optimizers=self.optimizer, opt_level=level
            )

    def _set_up_lr_scheduler(self) -> None:
        create = getattr(self.inner, "create_lr_scheduler", None)
        wrapper = None if create is None else with_hparams(create, self.hparams, self.optimizer)
        if wrapper is None:
            return
        try:
            stepping = stepping_of(wrapper)
        except TypeError as error:
            raise TypeError(
                f"{full_name(self.trial_cls)}.create_lr_scheduler() must return an "
                f"LRScheduler(scheduler, step_mode=...) or None, got {type(wrapper).__name__}"
            ) from error
        self.context.wrap_lr_scheduler(*stepping)
        self.context.lr_schedulers[-1] = wrapper
        vars(self.context).update(lr_scheduler=wrapper)

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
        """Forward, backward and step."""
        self.begin_batch(batch)
        metrics = self.training_metrics_of(batch, epoch_idx, batch_idx)
        loss = self._loss_in(metrics)
        self.context.backward(loss)
        # Callbacks came when these hyperparameters went, and may be what reads them.
        clips = any(callback.clips for callback in self._callbacks.values())
        clip = self._before_optimizer_step if clips else self._clip_by_hparams
        self.context.step_optimizer(self.optimizer, clip_grads=clip)
        return metrics

    def begin_batch(self, batch: Any) -> None:
        """Tell the callbacks, which count batches and records."""
        for callback in self._callbacks.values():
            callback.begin_batch(batch)

    def _loss_in(self, metrics: Any) -> torch.Tensor:
        method = f"{full_name(self.trial_cls)}.train_batch()"
        if isinstance(metrics, dict) and "loss" not in metrics:
            raise InvalidExperimentException(
                f'{method} must return "loss" among its metrics, got {sorted(map(str, metrics))}'
            )
        loss = metrics["loss"] if isinstance(metrics, dict) else metrics
        if not isinstance(loss, torch.Tensor):
            raise TypeError(
                f'{method} must return the loss, a tensor, or a dict of metrics with it as "loss", '
                f"got {type(loss).__name__}"
            )
        if loss.numel() != 1:
            raise InvalidExperimentException(
                f"{method} returned a loss of shape {tuple(loss.shape)}; it must be a scalar, "
                "loss.mean() for example"
            )
        return loss

    def _before_optimizer_step(self, parameters: Any) -> None:
        for callback in self._callbacks.values():
            callback.on_before_optimizer_step(parameters)

    def build_callbacks(self) -> Any:
        """The user's callbacks, as callbacks of today."""
        build = getattr(self.inner, "build_callbacks", None)
        callbacks: Any = {} if build is None else build()
        if isinstance(callbacks, dict):
            callbacks = self._callbacks = {
                name: OldCallback(callback, self.context) for name, callback in callbacks.items()
            }
        return callbacks

    def evaluation_reducer(self) -> Any:
        """How metrics of batches are reduced."""
        reducer = getattr(self.inner, "evaluation_reducer", None)
        return Reducer.AVG if reducer is None else reducer()

    def defines(self, name: str) -> bool:
        """Whether the user's trial has a method ``name`` of its own."""
        return is_user_code(getattr(self.inner, name, None), "PyTorchTrial")


def user_trial(trial: Any) -> Any:
    """The trial that the user wrote, without what adapters put around it."""
    while any(cls.__module__.startswith(_ADAPTERS) for cls in type(trial).__mro__):
        trial = trial.inner
    return trial


def with_hparams(
    method: Callable[..., Any], hparams: dict[str, Any], *args: Any, **kwargs: Any
) -> Any:
    """Call ``method``, with the hyperparameters too if it takes them, as it did at first.

    It takes them in a parameter ``hparams``, or in one after ``args`` that has no default.
    """
    parameters = inspect.signature(method).parameters
    if "hparams" in parameters and "hparams" not in kwargs:
        return method(*args, **kwargs, hparams=hparams)
    positional = [
        parameter
        for parameter in parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        and parameter.default is parameter.empty
        and parameter.name not in kwargs
    ]
    extra = [hparams] if len(positional) == len(args) + 1 else []
    return method(*args, *extra, **kwargs)


def clip_by_hparams(hparams: dict[str, Any]) -> Callable[[Any], Any] | None:
    """What clips the gradients of parameters as the hyperparameters ask; None if they do not.

    ``clip_grad_l2_norm`` bounds the L2 norm of all gradients together, ``clip_grad_val`` each
    element of them.

    Raises:
        InvalidExperimentException: both are given.
    """
    asked = [name for name in _CLIPS if hparams.get(name) is not None]
    if not asked:
        return None
    if len(asked) > 1:
        raise InvalidExperimentException(
            f"the hyperparameters hold both {' and '.join(asked)}: gradients are clipped one way "
            "or the other, remove one of them"
        )
    [name] = asked
    clip, value = _CLIPS[name], hparams[name]
    logger.info(f"gradients are clipped as the hyperparameter {name}={value!r} asks")
    return lambda parameters: clip(parameters, value)

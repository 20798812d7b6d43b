"""Trials of Determined 0.12: ``build_model``, ``optimizer``, ``create_lr_scheduler``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from det_compat.adapters.adapted import AdaptedTrial, with_hparams
from det_compat.adapters.trial_class import (
    concrete,
    defines,
    full_name,
    init_parameter,
    own_init,
)
from det_compat.errors import InvalidExperimentException
from det_compat.pytorch._overrides import takes_parameter


class Determined012(AdaptedTrial):
    """A trial of Determined 0.12, whose methods are given the model.

    ``train_batch`` of one of 0.12.12's that wraps models itself is given the first of them, and
    calls backward and step itself.
    """

    builds_itself: ClassVar[bool] = False

    def make_trial(self, **kwargs: Any) -> Any:
        trial_cls = concrete(self.trial_cls)
        init = own_init(self.trial_cls)
        if init is not None and takes_parameter(init, "hparams"):
            kwargs["hparams"] = self.hparams
        if init is None or init_parameter(self.trial_cls) in (None, "hparams"):
            return trial_cls(**kwargs)
        return trial_cls(self.context, **kwargs)

    def set_up(self) -> None:
        if self.builds_itself:
            self._adopt()
        else:
            super().set_up()
        self.context.model, self.context.optimizer = self.model, self.optimizer
        self.context.lr_scheduler = self.lr_scheduler
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
        if self.builds_itself and not takes_parameter(method, "model"):
            del kwargs["model"]
        return with_hparams(method, self.hparams, **kwargs)


def in_context_api(
    trial_cls: type,
    make_data_loaders: Callable[..., Any] | None = None,
    download_data: Callable[..., Any] | None = None,
) -> type:
    """A class of the context API around a trial class of Determined 0.12."""
    builds_itself = not (defines(trial_cls, "build_model") and defines(trial_cls, "optimizer"))
    members = {"trial_cls": trial_cls, "builds_itself": builds_itself}
    return type(trial_cls.__name__, (Determined012,), members)

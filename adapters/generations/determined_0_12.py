"""Trials of Determined 0.12, and of PEDL after its Standard Model Definition.

They define ``build_model``, ``optimizer`` and ``create_lr_scheduler``.
"""

import inspect
from collections.abc import Callable
from typing import Any

from det_compat.adapters.generations import trial_class
from det_compat.adapters.generations.adapted import AdaptedTrial
from det_compat.adapters.generations.pedl_run import CONTRACT, PedlRun
from det_compat.catalog.generations import init_parameter
from det_compat.errors import InvalidExperimentException
from det_compat.pytorch.overrides import takes_parameter


class Determined012(AdaptedTrial):
    """A trial of Determined 0.12, whose methods are given the model.

    ``train_batch`` of one of 0.12.12's that wraps models itself is given the first of them, and
    calls backward and step itself.
    """

    def make_trial(self, **kwargs: Any) -> Any:
        trial_cls = trial_class.concrete(self.trial_cls)
        init = trial_class.own_init(trial_cls)
        if init is not None and takes_parameter(init, "hparams"):
            kwargs["hparams"] = self.hparams
        if init_parameter(trial_class.ClassFacts(trial_cls)) in (None, "hparams"):
            return trial_cls(**kwargs)
        return trial_cls(self.context, **kwargs)

    def set_up(self) -> None:
        # What methods take is looked up once: it takes too long to do it for every batch.
        self._taken: dict[str, tuple[bool, bool]] = {}
        facts = trial_class.ClassFacts(self.trial_cls)
        self._builds_itself = not (facts.defines("build_model") and facts.defines("optimizer"))
        if self._builds_itself:
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
                f"{trial_class.full_name(self.trial_cls)} has no model: define build_model() and "
                "optimizer(), or call context.wrap_model() and context.wrap_optimizer() in __init__"
            )
        self.model = self.context.models[0]

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
        if self._builds_itself:
            self.begin_batch(batch)
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


class EarlyDetermined012(PedlRun, Determined012):
    """A trial of Determined 0.12 whose loaders are functions of a module, as in PEDL."""

    contract = (
        "define build_training_data_loader() and build_validation_data_loader(), or "
        f"{CONTRACT} in the trial's module"
    )
    make_trial = Determined012.make_trial


class PedlTrial(PedlRun, Determined012):
    """A PEDL trial of the later form: one of 0.12, without context and loader methods."""

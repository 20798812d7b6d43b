"""Metrics of a trial on their way to Lightning's loggers, callbacks and progress bar.

TensorBoard's file is written by a thread. To wake it for a report takes as long as several batches
of a small model, so that a TensorBoardLogger gets its reports once a second, where there are more:
what comes within a second of the last ones is held until the first batch after it, a checkpoint
or the end. The thread itself writes every two minutes. Other loggers get each report at once.
"""

import time
from typing import Any

import torch

from det_compat.adapters.lightning import door
from det_compat.adapters.lightning.package import pl
from det_compat.util.metrics import is_numerical_scalar

_PROGRESS = ("batches", "epochs")
_HOLDING = 1.0  # seconds


class MetricsPublisher:
    """Publishes scalar metrics under the names that the trial gave them.

    A validation metric that has the name of a training metric is published as ``val_<name>``.
    """

    def __init__(self) -> None:
        self.training_names: set[str] = set()
        self._shown: dict[str, float] = {}
        #: Reports that a TensorBoardLogger has not got yet, with the batches trained until then.
        self.held: list[tuple[dict[str, float], int]] = []
        self._holds_until = 0.0

    def state_dict(self) -> dict[str, Any]:
        """The last value of each metric, and which of them are of training."""
        return {"training_names": sorted(self.training_names), "shown": dict(self._shown)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Put back what ``state_dict`` returned; nothing if it is empty."""
        self.training_names.update(state.get("training_names", ()))
        self._shown.update(state.get("shown", {}))

    def show_again(self, trainer: pl.Trainer) -> None:
        """Let callbacks see the last value of each metric after a resume."""
        self._show(trainer, self._shown)

    def training(self, trainer: pl.Trainer, metrics: dict[str, Any], step: int) -> None:
        """Publish training metrics, ``step`` batches into the run."""
        self._log(trainer, self.training_so_far(trainer, metrics), step)

    def training_so_far(self, trainer: pl.Trainer, metrics: dict[str, Any]) -> dict[str, float]:
        """Let callbacks see the metrics of a reporting period that may not be over."""
        scalars = _scalars(metrics)
        self.training_names.update(scalars)
        self._show(trainer, scalars)
        return scalars

    def validation(self, module: pl.LightningModule, metrics: dict[str, Any], step: int) -> None:
        """Publish validation metrics, ``step`` batches into the run."""
        scalars = _scalars(metrics)
        named = {self._validation_name(name, scalars): scalars[name] for name in scalars}
        if module.trainer.state.fn != pl.trainer.states.TrainerFn.FITTING:
            # What `trainer.validate()` and `test()` return and print is what is logged this way.
            module.log_dict(named, sync_dist=True)
        else:
            self._show(module.trainer, named)
            self._log(module.trainer, named, step)

    def _validation_name(self, name: str, metrics: dict[str, float]) -> str:
        taken = self.training_names | (metrics.keys() - {name})
        candidates = (name, f"val_{name}", f"validation_{name}")
        return next((c for c in candidates if c not in taken), candidates[-1])

    def _show(self, trainer: pl.Trainer, scalars: dict[str, float]) -> None:
        self._shown.update(scalars)
        # `self.log` would do it too, at the price of a result collection that every hook keeps.
        of_callbacks, of_bar = door.shown_metrics(trainer)
        of_callbacks.update((name, torch.tensor(value)) for name, value in scalars.items())
        of_bar.update(scalars)

    def _log(self, trainer: pl.Trainer, scalars: dict[str, float], step: int) -> None:
        if not scalars:
            return
        for logger in trainer.loggers:
            if not _is_slow_to_wake(logger):
                logger.log_metrics(scalars, step=step)
        self.held.append((scalars, step))
        self.hand_over_if_due(trainer)

    def hand_over_if_due(self, trainer: pl.Trainer) -> None:
        """Hand over what is held, if that was last done a second ago."""
        if self.held and time.monotonic() >= self._holds_until:
            self.hand_over(trainer)

    def hand_over(self, trainer: pl.Trainer) -> None:
        """Hand over what is held."""
        if not self.held:
            return
        held, self.held = self.held, []
        for logger in filter(_is_slow_to_wake, trainer.loggers):
            for scalars, step in held:
                logger.log_metrics(scalars, step=step)
        self._holds_until = time.monotonic() + _HOLDING


def _is_slow_to_wake(logger: Any) -> bool:
    # What others make of it may show each report as it comes.
    return type(logger) is pl.loggers.TensorBoardLogger


def _scalars(metrics: dict[str, Any]) -> dict[str, float]:
    # "batches" and "epochs" are added to every report; Lightning counts steps and epochs itself.
    metrics = {name: value for name, value in metrics.items() if name not in _PROGRESS}
    numbers = ((name, value) for name, value in metrics.items() if is_numerical_scalar(value))
    return {str(name): float(value) for name, value in numbers}

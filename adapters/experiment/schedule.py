"""The schedule of an experiment config, with what options of the Trainer change in it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytorch_lightning as pl

from det_compat.adapters.lightning.determined_pace import NEVER
from det_compat.adapters.lightning.door import lift_limits
from det_compat.adapters.run.schedule import Schedule
from det_compat.config.experiment import ExperimentConfig
from det_compat.config.hyperparameters import batch_size
from det_compat.config.lengths import Length, Period, Unit
from det_compat.config.periods import ResolvedPeriods
from det_compat.fit.errors import FitError
from det_compat.pytorch.train_unit import Batch, Epoch, TrainUnit


@dataclass(frozen=True)
class Overrides:
    """What the Trainer was given in place of the config's length and validation period."""

    max_epochs: int | None = None
    max_steps: int | None = None
    val_check_interval: int | float | None = None
    check_val_every_n_epoch: int | None = None

    def length(self, epoch_batches: int) -> Length | None:
        """How long to train; None if the config says it. With both limits, the nearer one."""
        if self.max_steps is None:
            return None if self.max_epochs is None else Length(self.max_epochs, Unit.EPOCHS)
        if self.max_epochs is not None and self.max_epochs * epoch_batches <= self.max_steps:
            return Length(self.max_epochs, Unit.EPOCHS)
        return Length(self.max_steps, Unit.BATCHES)

    def validation(self, epoch_batches: int) -> Length | None:
        """How often to validate; None if the config says it."""
        interval, epochs = self.val_check_interval, self.check_val_every_n_epoch
        if isinstance(interval, float):
            batches = max(int(interval * epoch_batches), 1)
            return Length(epochs or 1, Unit.EPOCHS) if interval == 1 else _batches(batches)
        if interval is not None:
            return _batches(interval)
        return None if epochs is None else Length(epochs, Unit.EPOCHS)


def _batches(count: int) -> Length:
    return Length(count, Unit.BATCHES)


def take_over_schedule(trainer: pl.Trainer) -> Overrides:
    """What the user gave the Trainer, which from now on leaves the schedule to the trial."""
    overrides = Overrides(
        max_epochs=_given(trainer.max_epochs, None, -1),
        max_steps=_given(trainer.max_steps, None, -1),
        val_check_interval=_given(trainer.val_check_interval, None, NEVER),
        check_val_every_n_epoch=trainer.check_val_every_n_epoch,
    )
    lift_limits(trainer)
    trainer.val_check_interval = NEVER
    trainer.check_val_every_n_epoch = None
    return overrides


def _given(value: Any, *defaults: Any) -> Any:
    return None if value in defaults else value


def planned(
    experiment: ExperimentConfig, overrides: Overrides, *, epoch_batches: int, slots: int
) -> ResolvedPeriods:
    """The length and the periods of a run on ``slots`` processes.

    Raises:
        FitError: nothing says how long to train, or a length cannot be counted in batches.
    """
    length = overrides.length(epoch_batches) or experiment.length
    if length is None:
        raise FitError(
            "nothing says how long to train: set searcher.max_length, or give --trainer.max_epochs"
        )
    periods = experiment.periods
    if (validation := overrides.validation(epoch_batches)) is not None:
        periods = replace(periods, validation=validation)
    size = batch_size(experiment.hyperparameters.constants(), slots)
    try:
        return periods.resolve(length, epoch_batches=epoch_batches, global_batch_size=size)
    except ValueError as error:
        raise FitError(str(error)) from error


def as_train_units(periods: ResolvedPeriods) -> Schedule:
    """``periods`` as the loops take it."""
    return Schedule(
        _unit(periods.length),
        _unit(periods.validation),
        _unit(periods.checkpoint),
        _unit(periods.report),
    )


def _unit(period: Period) -> TrainUnit:
    return Epoch(period.n) if period.unit is Unit.EPOCHS else Batch(period.n)

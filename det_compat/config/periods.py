"""How often a run validates, checkpoints and reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from det_compat.config.lengths import NEVER, Length, Period, Unit, parse_length

_BATCHES_PER_STEP = 100


@dataclass(frozen=True)
class Periods:
    """How often things are to happen, as a config says it: before the data is known."""

    validation: Length
    checkpoint: Length
    report: Length
    initial_validation: bool
    checkpoint_policy: str
    records_per_epoch: int

    def resolve(
        self, length: Length, *, epoch_batches: int | None, global_batch_size: int | None = None
    ) -> ResolvedPeriods:
        """The periods of a run of ``length``, as the trainer counts them.

        Args:
            length: how long the run is.
            epoch_batches: batches in an epoch, the chief's; None where the data do not say, and
                epochs are counted by the config's ``records_per_epoch``.
            global_batch_size: records in a batch over all processes; lengths in records need it.

        Raises:
            ValueError: a length cannot be counted.
        """
        validation, checkpoint, report, whole = (
            self._period(item, global_batch_size, is_counted=epoch_batches is not None)
            for item in (self.validation, self.checkpoint, self.report, length)
        )
        return ResolvedPeriods(
            whole,
            validation,
            checkpoint,
            report,
            epoch_batches,
            self.initial_validation,
            self.checkpoint_policy,
        )

    def _period(self, item: Length, global_batch_size: int | None, *, is_counted: bool) -> Period:
        period = item.period(global_batch_size)
        if is_counted or period.is_never or period.unit is Unit.BATCHES:
            return period
        records = self.records_per_epoch
        return Period(Unit.BATCHES, item.batches(global_batch_size, records_per_epoch=records))


@dataclass(frozen=True)
class ResolvedPeriods:
    """The periods of one run.

    Attributes:
        length: how long the run is; this and the periods are what ``Trainer.fit`` takes.
        validation: how often it validates.
        checkpoint: how often it saves a checkpoint.
        report: how often it reports training metrics.
        epoch_batches: batches in an epoch; None where the data do not say, and no period is in
            epochs.
        initial_validation: whether it validates before the first batch.
        checkpoint_policy: best, all or none: which validations a checkpoint follows.
    """

    length: Period
    validation: Period
    checkpoint: Period
    report: Period
    epoch_batches: int | None
    initial_validation: bool = False
    checkpoint_policy: str = "best"

    @property
    def total_batches(self) -> int:
        """Batches in the run."""
        return self.batches_in(self.length)

    def batches_in(self, period: Period) -> int:
        """Batches in one ``period``."""
        return period.n * (self.epoch_batches or 1 if period.unit is Unit.EPOCHS else 1)


def batches_per_step(config: Mapping[str, Any] | None) -> int:
    """Batches in a step, which is also the reporting period, of a config, if there is one."""
    given = config or {}
    return int(given.get("scheduling_unit", given.get("batches_per_step", _BATCHES_PER_STEP)))


def parse_periods(config: Mapping[str, Any]) -> Periods:
    """The periods of a validated config."""
    step = batches_per_step(config)

    def period(name: str) -> Length:
        value = config.get(f"min_{name}", config.get(name))
        return NEVER if value is None else parse_length(value, factor=step)

    return Periods(
        validation=period("validation_period"),
        checkpoint=period("checkpoint_period"),
        report=Length(step, Unit.BATCHES),
        initial_validation=config.get("perform_initial_validation", False),
        checkpoint_policy=config.get("checkpoint_policy", "best"),
        records_per_epoch=config.get("records_per_epoch", 0),
    )

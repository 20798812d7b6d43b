"""The batches after which something happens in a run, listed from a config alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from heapq import merge
from itertools import groupby

from det_compat.config import ExperimentConfig
from det_compat.config.lengths import Period
from det_compat.config.periods import ResolvedPeriods


def resolved(config: ExperimentConfig, epoch_batches: int) -> ResolvedPeriods:
    """The periods of a run of the config's own length."""
    assert config.length is not None
    size = config.global_batch_size
    return config.periods.resolve(
        config.length, epoch_batches=epoch_batches, global_batch_size=size
    )


def validations(plan: ResolvedPeriods) -> list[int]:
    """Batch counts at which validation runs; 0 is before training."""
    first = [0] if plan.initial_validation else []
    return [*first, *_due(plan, plan.validation, at_end=True)]


def checkpoints(plan: ResolvedPeriods) -> list[int]:
    """Batch counts that are saved for certain; policy ``best`` may add those of validations."""
    due = _due(plan, plan.checkpoint, at_end=True)
    if plan.checkpoint_policy != "all":
        return [*due]
    return _each_once(merge(due, _due(plan, plan.validation, at_end=True)))


def reports(plan: ResolvedPeriods) -> list[int]:
    """Batch counts at which training metrics are reported."""
    periods = (plan.length, plan.validation, plan.checkpoint, plan.report)
    return _each_once(merge(*(_due(plan, period) for period in periods)))


def _due(plan: ResolvedPeriods, period: Period, *, at_end: bool = False) -> Iterator[int]:
    total = plan.total_batches
    if not period.is_never:
        step = plan.batches_in(period)
        yield from range(step, total, step)
        at_end = at_end or total % step == 0
    if at_end and total:
        yield total


def _each_once(counts: Iterable[int]) -> list[int]:
    return [count for count, _ in groupby(counts)]

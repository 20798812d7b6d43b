"""One trial of a search: the function that Ray Tune runs, in a process of its own."""

from __future__ import annotations

import math
import os
from typing import Any

from det_compat.search.records import Report, Status, TrialRecord
from det_compat.search.tune.attempt import Attempt, TrialTask, log_to


def run_trial(config: dict[str, Any], task: TrialTask | None = None) -> None:
    """Train the trial that Ray Tune's ``config`` names, in as many processes as it has slots.

    Raises:
        Exception: the training ended in a way that may be another one if it starts again.
    """
    assert task is not None
    index, bracket = config["trial"]["index"], config["trial"]["bracket"]
    record = task.folder.trial(index)
    log_to(record.folder / "log.txt")
    earlier = _report_again(record, task.plan.metric)
    if record.status is not Status.UNFINISHED:
        # The trial ended just before the search was killed.
        return
    record.forget_error()
    start = None if earlier is None else earlier.checkpoint
    try:
        _train(Attempt(task, index, bracket, config["hparams"], start))
    except Exception:
        if record.status is Status.UNFINISHED:
            raise
    else:
        _finish(record, task.plan.metric)


def _train(attempt: Attempt) -> None:
    metric = attempt.task.plan.metric
    if attempt.task.plan.processes == 1:
        attempt.train(lambda report: _tell_tune(report, metric))
        return
    # This import brings torch, which a search of one process a trial leaves to its trials.
    from det_compat.search.tune.workers import train_on_workers

    train_on_workers(attempt, lambda report: _tell_tune(report, metric))


def _finish(record: TrialRecord, metric: str) -> None:
    if record.reports():
        record.finish(Status.COMPLETED)
    else:
        why = f"the trial ended and never reported the metric {metric!r}: it has not validated"
        record.finish(Status.ERROR, why)


def _report_again(record: TrialRecord, metric: str) -> Report | None:
    """Let Tune know where the trial stands that it starts again; the report to go on from."""
    reports = record.reports()
    if not reports:
        return None
    _tell_tune(reports[-1], metric)
    with_checkpoint = [report for report in reports if _is_there(report.checkpoint)]
    return with_checkpoint[-1] if with_checkpoint else None


def _is_there(checkpoint: str | None) -> bool:
    return checkpoint is not None and ("://" in checkpoint or os.path.exists(checkpoint))


def _tell_tune(report: Report, metric: str) -> None:
    from ray import tune

    # Tune's own files get only those of `metrics` that are numbers.
    tune.report(
        {
            **{name: value for name, value in report.metrics.items() if _is_finite(value)},
            metric: report.metric,
            "batches": report.batches,
            "rungs": report.rungs,
            "checkpoint": report.checkpoint,
        }
    )


def _is_finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)

"""One trial of a search: the function that Ray Tune runs, in a process of its own."""

import functools
import math
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
    record, metric = task.folder.trial(index), task.plan.searcher.metric
    # What Tune keeps of them, and shows, is without secrets.
    hparams = record.about()["hparams"]
    log_to(record.folder / "log.txt")
    earlier = _report_again(record, metric)
    if record.status is not Status.UNFINISHED:
        # The trial ended just before the search was killed.
        return
    record.forget_error()
    start = None if earlier is None else earlier.checkpoint
    attempt = Attempt(task, index, bracket, hparams, start)
    tell = functools.partial(_tell_tune, metric=metric)
    try:
        if task.plan.processes == 1:
            attempt.train(tell)
        else:
            # This import brings torch, which a search of one process a trial leaves to its trials.
            from det_compat.search.tune.workers import train_on_workers

            train_on_workers(attempt, tell)
    except Exception:
        if record.status is Status.UNFINISHED:
            raise
        return
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
    return next((report for report in reversed(reports) if report.has_checkpoint), None)


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

"""One trial of a search, in a process of its own."""

import json
import math
import pickle
from collections.abc import Callable
from dataclasses import asdict
from multiprocessing.connection import Connection
from typing import Any

from det_compat.search.records import Report, Status, TrialRecord
from det_compat.search.tune.attempt import Attempt, TrialTask, log_to


def run(payload: bytes, channel: "Connection[Any, Any]") -> None:
    """Train a trial in a process of its own; see ``run_trial``.

    Args:
        payload: the pickled task, and Ray Tune's config of the trial, pickled.
        channel: takes each report, and answers whether training goes on.

    Raises:
        SystemExit: it does not.
    """
    task, config = pickle.loads(payload)

    def tell(report: Report) -> None:
        channel.send_bytes(json.dumps(asdict(report), default=str).encode())
        try:
            goes_on = json.loads(channel.recv_bytes())
        except (EOFError, OSError):
            goes_on = False
        if not goes_on:
            raise SystemExit("the search has stopped the trial")

    run_trial(config, pickle.loads(task), tell)


def run_in_tune(config: dict[str, Any], task: bytes = b"", keeper: Any = None) -> None:
    """Train a trial of several processes, as the function that Ray Tune runs; see ``run_trial``."""
    from det_compat.search.tune.mirror import arrive

    scratch = arrive(keeper)
    try:
        whole: TrialTask = pickle.loads(task)
        metric = whole.plan.searcher.metric
        run_trial(config, whole, lambda report: _tell_tune(report, metric), keeper)
    finally:
        if scratch is not None:
            scratch.close()


def run_trial(
    config: dict[str, Any],
    task: TrialTask,
    tell: Callable[[Report], None],
    keeper: Any = None,
) -> None:
    """Train the trial that Ray Tune's ``config`` names, and let ``tell`` know of each validation.

    Args:
        config: Ray Tune's.
        task: what to do.
        tell: is called with each report.
        keeper: of the search's folder, for processes on other machines; see ``mirror``.

    Raises:
        Exception: the training ended in a way that may be another one if it starts again.
    """
    index, bracket = config["trial"]["index"], config["trial"]["bracket"]
    record, metric = task.folder.trial(index), task.plan.searcher.metric
    # What Tune keeps of them, and shows, is without secrets.
    hparams = record.about()["hparams"]
    log_to(record.folder / "log.txt")
    earlier = _report_again(record, tell)
    if record.status is not Status.UNFINISHED:
        # The trial ended just before the search was killed.
        return
    record.start_again()
    start = None if earlier is None else earlier.checkpoint
    attempt = Attempt(task, index, bracket, hparams, start)
    try:
        if task.plan.processes == 1:
            attempt.train(tell)
        else:
            # This import brings torch, which a search of one process a trial leaves to its trials.
            from det_compat.search.tune.workers import train_on_workers

            train_on_workers(attempt, tell, keeper)
    except Exception:
        if record.status is Status.UNFINISHED:
            raise
        return
    if record.reports():
        record.finish(Status.COMPLETED)
    else:
        why = f"the trial ended and never reported the metric {metric!r}: it has not validated"
        record.finish(Status.ERROR, why)


def _report_again(record: TrialRecord, tell: Callable[[Report], None]) -> Report | None:
    """Let the search know where the trial stands that it starts again; the report to go on from."""
    reports = record.reports()
    if not reports:
        return None
    tell(reports[-1])
    return next((report for report in reversed(reports) if report.has_checkpoint), None)


def _tell_tune(report: Report, metric: str) -> None:
    from ray import tune

    tune.report(tune_result(report, metric))


def tune_result(report: Report, metric: str) -> dict[str, Any]:
    """What Tune is told of a validation; its own files get only those metrics that are numbers."""
    return {
        **{name: value for name, value in report.metrics.items() if _is_finite(value)},
        metric: report.metric,
        "batches": report.batches,
        "rungs": report.rungs,
        "checkpoint": report.checkpoint,
    }


def _is_finite(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)

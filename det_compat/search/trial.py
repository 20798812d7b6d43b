"""One trial of a search, in its own process."""

from __future__ import annotations

import functools
import importlib
import logging
import math
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from det_compat.config.lengths import Length
from det_compat.errors import InvalidHP
from det_compat.search.errors import SearchError
from det_compat.search.plan import SearchPlan, trial_config
from det_compat.search.records import Report, SearchFolder, Status, TrialRecord
from det_compat.search.sampling import trial_seed

#: ``report(batches, metrics, checkpoint)`` after a validation, ``checkpoint`` being the path of one
#: of that moment or None. It may not return: the search may stop the trial there.
ReportFunction = Callable[[int, dict[str, Any], str | None], None]

TRAINER = "det_compat.adapters.search_trial:train_one"


class TrainOne(Protocol):
    """What trains one trial from its start, or from a checkpoint, to its end.

    Raises:
        det_compat.InvalidHP: the hyperparameters cannot be used.
    """

    def __call__(
        self,
        config: dict[str, Any],
        run_dir: Path,
        report: ReportFunction,
        resume_from: str | None,
        *,
        model_dir: Path,
        validate_at: Sequence[Length],
    ) -> None:
        """Train.

        Args:
            config: the experiment config of the trial: a single run with constants.
            run_dir: where the trial may write.
            report: called after every validation, as soon as its checkpoint is complete. The
                metrics have ``epochs``, the number of epochs trained, next to the trial's own.
            resume_from: a checkpoint that was reported earlier.
            model_dir: where the entrypoint is imported from.
            validate_at: lengths at which the trial validates, next to what its config says.
        """


@dataclass(frozen=True)
class TrialTask:
    """What the processes of all trials are given.

    Attributes:
        plan: of the search.
        config: the experiment config, secrets included: it is passed on in memory only.
        folder: of the search, which all machines of a cluster see.
        model_dir: where the entrypoint is imported from.
        train_one: a function, or ``module:function``.
    """

    plan: SearchPlan
    config: dict[str, Any]
    folder: SearchFolder
    model_dir: Path
    train_one: TrainOne | str


class MetricError(SearchError):
    """A trial does not report what the search goes by: training it again would not help."""


def run_trial(place: dict[str, Any], task: TrialTask | None = None) -> None:
    """Train the trial that Ray Tune's config ``place`` names: the function that Tune runs."""
    assert task is not None
    index, bracket = place["trial"]["index"], place["trial"]["bracket"]
    record = task.folder.trial(index)
    _log_to(record.folder / "log.txt")
    if record.status is not Status.UNFINISHED:
        # it ended just before the search was killed
        _report_again(record, task.plan.metric)
        return
    _train(index, bracket, place["hparams"], record, task)


def _train(
    index: int, bracket: int, hparams: dict[str, Any], record: TrialRecord, task: TrialTask
) -> None:
    plan = task.plan
    reached = functools.partial(plan.rungs_reached, bracket, hparams=hparams)
    earlier = _report_again(record, plan.metric)
    try:
        _trainer(task.train_one)(
            trial_config(task.config, hparams, trial_seed(plan.seed, index)),
            record.folder,
            functools.partial(_report, record, plan.metric, reached),
            None if earlier is None else earlier.checkpoint,
            model_dir=task.model_dir,
            validate_at=plan.rungs_of(bracket),
        )
        _check_reports(record, plan.metric)
    except InvalidHP as error:
        record.finish(Status.INVALID_HP, str(error))
    except MetricError as error:
        record.finish(Status.ERROR, str(error))
        print(f"det-compat: {error}", file=sys.stderr)
    except BaseException:
        record.note_error(traceback.format_exc())
        traceback.print_exc()
        raise
    else:
        record.finish(Status.COMPLETED)


def _log_to(file: Path) -> None:
    """Send what this process writes, native libraries included, to the trial's own log."""
    # Tune's log_to_file puts an object in the place of sys.stderr that has not even isatty()
    with file.open("ab") as log:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)


def _trainer(train_one: TrainOne | str) -> TrainOne:
    if not isinstance(train_one, str):
        return train_one
    module, _, name = train_one.partition(":")
    trainer: TrainOne = getattr(importlib.import_module(module), name)
    return trainer


def _report(
    record: TrialRecord,
    metric: str,
    reached: Callable[..., int],
    batches: int,
    metrics: dict[str, Any],
    checkpoint: str | os.PathLike[str] | None,
) -> None:
    value = _number(metrics, metric)
    scalars = {name: item for name, item in metrics.items() if isinstance(item, (int, float, str))}
    report = Report(
        batches=batches,
        rungs=reached(batches=batches, metrics=metrics),
        metric=value,
        metrics=scalars,
        checkpoint=None if checkpoint is None else os.fspath(checkpoint),
    )
    record.append(report)
    _tell_tune(report, metric)


def _number(metrics: dict[str, Any], name: str) -> float:
    if name not in metrics:
        known = ", ".join(sorted(map(str, metrics))) or "none"
        raise MetricError(
            f"the trial reports no metric {name!r}: its validation metrics are {known}. Set "
            "searcher.metric to one of them, or report it"
        )
    try:
        return float(metrics[name])
    except (TypeError, ValueError):
        raise MetricError(f"the trial's metric {name!r} is no number: {metrics[name]!r}") from None


def _check_reports(record: TrialRecord, metric: str) -> None:
    if not record.reports():
        raise MetricError(
            f"the trial ended and never reported the metric {metric!r}: it has not validated"
        )


def _report_again(record: TrialRecord, metric: str) -> Report | None:
    """Let Tune know where the trial stands that it starts again."""
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

    # what is no number is left out of `metrics` in Tune's own files
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

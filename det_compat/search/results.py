"""The results of a search."""

import csv
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from det_compat.search.records import Report, SearchFolder, Status, TrialRecord
from det_compat.shared.masking import without_secrets
from det_compat.shared.nested import by_dotted_name


@dataclass(frozen=True)
class TrialResult:
    """One trial of a search.

    Attributes:
        index: from 0, in the order of creation.
        bracket: from 0.
        hparams: the hyperparameters, as ``context.get_hparams()`` returns them.
        metric: the best value of the searcher's metric, None if there is none that is a number.
        metric_batches: batches trained when it was validated.
        batches: the batches trained in all.
        status: how the trial ended.
        checkpoint: the best that is kept, else the latest.
        checkpoint_batches: batches trained when it was saved, None without one.
        reason: why it ended, if there is more to tell.
        reports: all validations.
    """

    index: int
    bracket: int
    hparams: dict[str, Any]
    metric: float | None
    metric_batches: int | None
    batches: int
    status: Status
    checkpoint: str | None
    checkpoint_batches: int | None
    reason: str
    reports: tuple[Report, ...]

    @property
    def has_failed(self) -> bool:
        """Whether it counts as worst, whatever it has reported."""
        return self.status in (Status.ERROR, Status.INVALID_HP)

    def as_dict(self) -> dict[str, Any]:
        """The result in plain JSON types, without the validations and without secrets."""
        fields = {**vars(self), "hparams": without_secrets(self.hparams)}
        del fields["reports"]
        return {"trial": fields.pop("index"), **fields, "status": self.status.value}


#: The place of a checkpoint, and the batches that were trained when it was saved.
Saved = tuple[str, int | None]


def read_results(
    folder: SearchFolder,
    *,
    smaller_is_better: bool,
    last_saved: Callable[[Path], Saved | None] = lambda folder: None,
) -> list[TrialResult]:
    """The trials in ``folder``, best first; then those without a metric, then those that failed.

    ``last_saved`` finds a checkpoint of a trial that has saved none when it validated.
    """
    sign = 1 if smaller_is_better else -1
    results = [_result(record, sign, last_saved) for record in folder.trials()]

    def order(result: TrialResult) -> tuple[bool, float, int]:
        metric = math.inf if result.metric is None else sign * result.metric
        return result.has_failed, metric, result.index

    return sorted(results, key=order)


def _result(
    record: TrialRecord, sign: int, last_saved: Callable[[Path], Saved | None]
) -> TrialResult:
    reports = record.reports()
    numbers = [report for report in reports if math.isfinite(report.metric)]
    best = min(numbers, key=lambda report: sign * report.metric, default=None)
    latest_first = reversed(reports)
    preferred = latest_first if best is None else (best, *latest_first)
    reported = ((one.checkpoint, one.batches) for one in preferred if one.has_checkpoint)
    checkpoint, saved_after = next(reported, None) or last_saved(record.folder) or (None, None)
    return TrialResult(
        **record.about(),
        metric=None if best is None else best.metric,
        metric_batches=None if best is None else best.batches,
        batches=reports[-1].batches if reports else 0,
        status=record.status,
        checkpoint=checkpoint,
        checkpoint_batches=saved_after,
        reason=record.reason,
        reports=tuple(reports),
    )


def write_results(folder: Path, results: list[TrialResult]) -> None:
    """Write ``results.json`` and ``results.csv`` into ``folder``."""
    rows = [result.as_dict() for result in results]
    (folder / "results.json").write_text(json.dumps(rows, indent=2, default=str), "utf-8")
    flat = [{**dict(by_dotted_name(row["hparams"], "hparams.")), **row} for row in rows]
    columns = ["trial", *list(TrialResult.__dataclass_fields__)[1:-1]]
    columns[columns.index("hparams") : columns.index("hparams") + 1] = sorted(
        {name for row in flat for name in row if name.startswith("hparams.")}
    )
    with (folder / "results.csv").open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(flat)


def value_of(hparams: Any, name: str) -> Any:
    """The hyperparameter of a dotted name, whose value may be a mapping; None if there is none."""
    if not isinstance(hparams, dict) or name in hparams:
        return hparams.get(name) if isinstance(hparams, dict) else None
    first, _, rest = name.partition(".")
    return value_of(hparams.get(first), rest) if rest else None


def saving(results: list[TrialResult]) -> str:
    """What was saved against training every trial to its end, empty if none was trained to it.

    The trials that were trained to the end tell how long that is; with several lengths, as batch
    sizes that are searched have them, the mean counts.
    """
    complete = [result.batches for result in results if result.status is Status.COMPLETED]
    counted = [result for result in results if result.status is not Status.INVALID_HP]
    if not complete or not any(complete):
        return ""
    trained = sum(result.batches for result in counted)
    to_the_end = round(sum(complete) / len(complete) * len(counted))
    return (
        f"{trained} batches trained in all trials, {1 - trained / to_the_end:.0%} less than the "
        f"{to_the_end} of training each to its end"
    )

"""Tables of trials for a terminal."""

from collections.abc import Iterable
from typing import Any

from rich.table import Table
from rich.text import Text

from det_compat.search.results import TrialResult, value_of
from det_compat.search.searchers.plan import SearchPlan

_MOST_ROWS = 30
_MOST_RESULTS = 10
_STYLES = {"completed": "green", "error": "red", "invalid_hp": "yellow", "running": "bold"}
_IS_RUNNING = ("running", "pending")


def progress_table(plan: SearchPlan, rows: Iterable[dict[str, Any]]) -> Table:
    """The trials so far: those that run, then the best of the others."""
    found = sorted(rows, key=lambda row: _order(plan, row))
    names = list(plan.space.ranges())
    table = Table("trial", "status", "batches", plan.searcher.metric, *names)
    for row in found[:_MOST_ROWS]:
        table.add_row(*_cells(row, names))
    over = sum(row["status"] not in _IS_RUNNING for row in found)
    table.caption = f"{over} of {plan.max_trials} trials have ended"
    return table


def progress_line(plan: SearchPlan, row: dict[str, Any]) -> str:
    """A trial that has ended, where there is no terminal."""
    hparams = "  ".join(
        f"{name}={_short(value_of(row['hparams'], name))}" for name in plan.space.ranges()
    )
    line = (
        f"trial {row['trial']:>4}  {row['status']:<10}  {row['batches']:>8} batches  "
        f"{plan.searcher.metric} {_short(row['metric'])}  {hparams}"
    )
    return f"{line}  ({row['reason']})" if row["reason"] else line


def results_table(plan: SearchPlan, results: list[TrialResult]) -> Table:
    """The best trials, and those that failed."""
    failed = [result for result in results[_MOST_RESULTS:] if result.status.value == "error"]
    names, metric = list(plan.space.ranges()), plan.searcher.metric
    table = Table("trial", "status", "batches", metric, *names, "checkpoint, or what failed")
    for result in [*results[:_MOST_RESULTS], *failed]:
        row = result.as_dict()
        where = result.reason or result.checkpoint or ""
        if where and not result.reason and result.checkpoint_batches != result.metric_batches:
            where = f"after batch {result.checkpoint_batches}: {where}"
        table.add_row(*_cells(row, names), Text(where, overflow="fold"))
    return table


def _order(plan: SearchPlan, row: dict[str, Any]) -> tuple[bool, bool, float]:
    metric = row["metric"]
    has_none = metric is None or metric != metric
    value = 0.0 if has_none else metric if plan.searcher.smaller_is_better else -metric
    return row["status"] not in _IS_RUNNING, has_none, value


def _cells(row: dict[str, Any], names: list[str]) -> list[Text]:
    values = [value_of(row["hparams"], name) for name in names]
    status = Text(row["status"], style=_STYLES.get(row["status"], ""))
    numbers = [row["batches"], row["metric"], *values]
    return [Text(str(row["trial"])), status, *(Text(_short(value)) for value in numbers)]


def _short(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)

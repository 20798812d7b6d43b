"""Pictures of a search."""

import logging
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize

# These do without pyplot, which would look for a display.
from matplotlib.figure import Figure

from det_compat.search.results import TrialResult, value_of
from det_compat.search.searchers.plan import SearchPlan

logger = logging.getLogger("det_compat")

_COLUMNS = 3
_SIZE = (4.8, 3.6)  # the inches of a plot
_LEGEND = 10  # the trials that a legend names
_MOST_TICKS = 12


def draw(path: Path, plan: SearchPlan, results: list[TrialResult]) -> None:
    """Draw as PNG what a page of Determined's web interface showed of a search.

    The metric over batches for each trial; each trial as a line through its hyperparameters to its
    best metric, by whose colour good ones are seen; the metric against each hyperparameter.
    """
    names = list(plan.space.ranges())
    tops = 2 if names else 1
    columns = min(_COLUMNS, max(len(names), 2))
    rows = tops + math.ceil(len(names) / columns)
    figure = Figure(figsize=(_SIZE[0] * columns, _SIZE[1] * rows), layout="constrained")
    FigureCanvasAgg(figure)
    grid = figure.add_gridspec(rows, columns)
    _curves(figure.add_subplot(grid[0, :]), plan, results)
    if names:
        _parallel(figure.add_subplot(grid[1, :]), plan, names, results)
    for number, name in enumerate(names):
        row, column = divmod(number, columns)
        _against(figure.add_subplot(grid[tops + row, column]), plan, name, results)
    try:
        figure.savefig(path, dpi=120)
    except OSError as error:  # A picture is not worth the results, which are written.
        logger.warning(f"cannot draw {path}: {error}")


def _curves(plot: Any, plan: SearchPlan, results: list[TrialResult]) -> None:
    for rank, result in enumerate(results):
        reports = [report for report in result.reports if math.isfinite(report.metric)]
        if reports:
            plot.plot(
                [report.batches for report in reports],
                [report.metric for report in reports],
                marker=".",
                label=f"trial {result.index}" if rank < _LEGEND else None,
                alpha=1.0 if rank < _LEGEND else 0.3,
            )
    plot.set(xlabel="batches", ylabel=_text(plan.searcher.metric), title=_text(plan.name))
    if plot.get_lines():
        plot.legend(fontsize="x-small")


def _parallel(plot: Any, plan: SearchPlan, names: list[str], results: list[TrialResult]) -> None:
    """A vertical axis for each hyperparameter and, at the right, for the metric."""
    known = [one for one in results if one.metric is not None and math.isfinite(one.metric)]
    values = [[value_of(one.hparams, name) for one in known] for name in names]
    heights = [
        _axis(plot, number, name, column, name in plan.logarithmic)
        for number, (name, column) in enumerate(zip(names, values, strict=True))
    ]
    metrics = [one.metric for one in known if one.metric is not None]
    heights.append(_axis(plot, len(names), plan.searcher.metric, metrics, False))
    colours: Any = ScalarMappable(
        Normalize(min(metrics, default=0), max(metrics, default=1)), "viridis"
    )
    for rank in range(len(known) - 1, -1, -1):  # the best is drawn last, on top
        points = [(x, line[rank]) for x, line in enumerate(heights) if line[rank] is not None]
        plot.plot(
            *zip(*points, strict=True),
            color=colours.cmap(colours.norm(metrics[rank])),
            linewidth=2.0 if rank < _LEGEND else 0.8,
            alpha=1.0 if rank < _LEGEND else 0.5,
        )
    plot.set_xticks(range(len(heights)), [_text(name) for name in (*names, plan.searcher.metric)])
    plot.set(xlim=(-0.3, len(names) + 0.3), ylim=(-0.08, 1.08), yticks=[])
    plot.spines[["left", "right", "top", "bottom"]].set_visible(False)
    plot.figure.colorbar(colours, ax=plot, label=_text(plan.searcher.metric))


def _axis(
    plot: Any, x: int, name: str | None, values: Sequence[Any], is_logarithmic: bool
) -> list[float | None]:
    """Draw an axis; the height from 0 to 1 of each value, None for one that a trial has not."""
    given = [value for value in values if value is not None]
    plot.axvline(x, color="0.6", linewidth=0.8, zorder=0)
    if _are_numbers(given):
        scale = math.log10 if is_logarithmic and all(v > 0 for v in given) else float
        low, high = min(map(scale, given)), max(map(scale, given))
        span = (high - low) or 1.0
        ends = {(scale(value) - low) / span: f"{value:.4g}" for value in (min(given), max(given))}
        for height, text in ends.items():
            plot.text(x, height, f" {text}", fontsize="x-small", va="center")
        return [None if value is None else (scale(value) - low) / span for value in values]
    texts = sorted({str(value) for value in given})
    places = {text: number / max(len(texts) - 1, 1) for number, text in enumerate(texts)}
    for text, height in [*places.items()][:: max(len(texts) // _MOST_TICKS, 1)]:
        plot.text(x, height, f" {_text(text)}", fontsize="x-small", va="center")
    return [None if value is None else places[str(value)] for value in values]


def _are_numbers(values: Sequence[Any]) -> bool:
    return bool(values) and all(
        isinstance(value, (int, float)) and not isinstance(value, bool) for value in values
    )


def _against(plot: Any, plan: SearchPlan, name: str, results: list[TrialResult]) -> None:
    known = [(value_of(result.hparams, name), result.metric) for result in results]
    pairs = [pair for pair in known if None not in pair]
    if not _are_numbers([value for value, _ in pairs]):
        pairs = [(str(value), metric) for value, metric in pairs]
    plot.scatter([value for value, _ in pairs], [metric for _, metric in pairs], s=18)
    plot.set(xlabel=_text(name), ylabel=_text(plan.searcher.metric))
    if name in plan.logarithmic:
        plot.set_xscale("log")
        plot.tick_params(axis="x", which="both", labelsize="x-small", labelrotation=45)


def _text(name: str | None) -> str:
    """A name as it is: a dollar sign would begin a formula."""
    return str(name).replace("$", r"\$")

"""Pictures of a search."""

import math
from pathlib import Path
from typing import Any

from det_compat.search.results import TrialResult, value_of
from det_compat.search.searchers.plan import SearchPlan

_COLUMNS = 3
_SIZE = (4.8, 3.6)  # the inches of a plot
_LEGEND = 10  # the trials that a legend names


def draw(path: Path, plan: SearchPlan, results: list[TrialResult]) -> None:
    """Draw the metric over batches, and against each hyperparameter that was searched, as PNG."""
    # These do without pyplot, which would look for a display.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = list(plan.space.ranges())
    columns = min(_COLUMNS, 1 + len(names))
    rows = math.ceil((1 + len(names)) / columns)
    figure = Figure(figsize=(_SIZE[0] * columns, _SIZE[1] * rows), layout="constrained")
    FigureCanvasAgg(figure)
    plots = list(figure.subplots(rows, columns, squeeze=False).flat)
    _curves(plots[0], plan, results)
    for plot, name in zip(plots[1:], names, strict=False):
        _against(plot, plan, name, results)
    for unused in plots[1 + len(names) :]:
        unused.set_visible(False)
    figure.savefig(path, dpi=120)


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
    plot.set(xlabel="batches", ylabel=plan.searcher.metric, title=plan.name)
    if plot.get_lines():
        plot.legend(fontsize="x-small")


def _against(plot: Any, plan: SearchPlan, name: str, results: list[TrialResult]) -> None:
    known = [(value_of(result.hparams, name), result.metric) for result in results]
    pairs = [pair for pair in known if None not in pair]
    if not all(isinstance(x, (int, float)) and not isinstance(x, bool) for x, _ in pairs):
        pairs = [(str(value), metric) for value, metric in pairs]
    plot.scatter([value for value, _ in pairs], [metric for _, metric in pairs], s=18)
    plot.set(xlabel=name, ylabel=plan.searcher.metric)
    if name in plan.logarithmic:
        plot.set_xscale("log")

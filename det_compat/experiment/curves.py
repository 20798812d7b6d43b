"""``curves.png`` in a run's folder: each metric over the batches."""

from __future__ import annotations

import contextlib
import importlib.util
import math
from collections import defaultdict
from pathlib import Path
from typing import Any

from det_compat.script.reported import numbers, reports
from det_compat.script.run_paths import METRICS
from det_compat.shared.extras import how_to_install

PICTURE = "curves.png"
_COLUMNS = 3
_MOST_PLOTS = 24
_SIZE = (4.4, 3.0)  # the inches of a plot
_COLOURS = {"training": "tab:blue", "validation": "tab:orange"}

#: The values by group and number of batches, by the metric's name.
Curves = dict[str, dict[str, dict[int, float]]]


def draw_curves(folder: Path) -> str:
    """Draw what the run in ``folder`` has reported; returns where, or why not. Nothing is raised.

    Training and validation metrics of one name share a plot.
    """
    if importlib.util.find_spec("matplotlib") is None:
        return f"needs matplotlib: {how_to_install('cli')}"
    try:
        curves = _read(folder / METRICS)
        if not curves:
            return "none: nothing was reported"
        _draw(folder / PICTURE, curves)
    except Exception as error:  # A picture is not worth the run that it shows.
        return f"cannot be drawn: {type(error).__name__}: {error}"
    return str(folder / PICTURE)


def _read(file: Path) -> Curves:
    found: Curves = defaultdict(lambda: defaultdict(dict))
    with contextlib.suppress(FileNotFoundError), file.open("rb") as lines:
        for report in reports(lines):
            step = report.get("steps_completed")
            if not isinstance(step, int):
                continue  # The load of the machine goes by the time.
            for name, value in numbers(report["metrics"]):
                if math.isfinite(value):
                    # Of a resumed run, the last report of a number of batches counts.
                    found[name][str(report.get("group"))][step] = value
    return found


def _draw(path: Path, curves: Curves) -> None:
    # These do without pyplot, which would look for a display.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    names = sorted(curves, key=lambda name: ("validation" not in curves[name], name))
    shown = names[:_MOST_PLOTS]
    columns = min(_COLUMNS, len(shown))
    rows = math.ceil(len(shown) / columns)
    figure = Figure(figsize=(_SIZE[0] * columns, _SIZE[1] * rows))
    FigureCanvasAgg(figure)
    # A layout that finds its margins itself takes as long as all the rest.
    margins = {"hspace": 0.5, "left": 0.6 / (_SIZE[0] * columns), "right": 0.98, "top": 0.9}
    figure.subplots_adjust(**margins, bottom=0.5 / (_SIZE[1] * rows))
    plots = list(figure.subplots(rows, columns, squeeze=False).flat)
    for plot, name in zip(plots, shown, strict=False):
        _plot(plot, name, curves[name])
    for unused in plots[len(shown) :]:
        unused.set_visible(False)
    if len(names) > len(shown):
        figure.suptitle(f"{len(shown)} of {len(names)} metrics")
    figure.savefig(path, dpi=100)


def _plot(plot: Any, name: str, groups: dict[str, dict[int, float]]) -> None:
    for group, values in sorted(groups.items()):
        steps = sorted(values)
        marker = "." if len(steps) < 50 else ""
        style = {"color": _COLOURS[group]} if group in _COLOURS else {}
        plot.plot(steps, [values[step] for step in steps], marker=marker, label=group, **style)
    # A dollar sign would begin a formula.
    plot.set_title(name.replace("$", r"\$"), fontsize="small")
    plot.set_xlabel("batches", fontsize="small")
    plot.legend(fontsize="x-small")

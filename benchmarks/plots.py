"""Plots of how costs grow, as SVG files beside the page that shows them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: The quantities that have a plot for each thing that grows.
QUANTITIES = {"CPU us": "cpu", "peak MiB": "memory", "bytes a period": "bytes"}


def plots_of(growth: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """The thing that grows and the quantity, by the name of the file."""
    return {
        f"growth-{thing.replace(' ', '-')}-{short}.svg": (thing, quantity)
        for thing, series in growth.items()
        for quantity, short in QUANTITIES.items()
        if any(quantity in point for points in series.values() for point in points.values())
    }


def draw(found: Mapping[str, Any], folder: Path) -> None:
    """Draw what was measured of growth into ``folder``."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    mpl.rcParams["svg.hashsalt"] = "det_compat"
    for name, (thing, quantity) in plots_of(found["growth"]).items():
        figure = Figure(figsize=(5, 3.2), layout="constrained")
        axes = figure.add_subplot(xscale="log", yscale="log", xlabel=thing, ylabel=quantity)
        for contender, points in found["growth"][thing].items():
            measured = {int(n): point[quantity] for n, point in points.items() if quantity in point}
            axes.plot([*measured], [*measured.values()], marker="o", label=contender)
        axes.legend(fontsize="small")
        figure.savefig(folder / name, metadata={"Date": None})

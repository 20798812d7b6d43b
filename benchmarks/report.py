"""Tables of what was measured."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.plots import plots_of

Series = Mapping[str, list[float]]

_START, _END = "<!-- tables -->", "<!-- end of tables -->"

BASES = ("plain PyTorch", "lean Lightning", "usual Lightning", "determined 0.38.1")
OURS = ("to_lightning", "pytorch.Trainer")


#: What a run measured, by its parts, as ``benchmarks.json`` has it.
Figures = Mapping[str, Any]

# The command that makes each part alone.
_HEADS = {
    "throughput": "Batches per second",
    "start": "Starting",
    "growth": "Growth",
    "saving": "Checkpoints",
    "resuming": "Going on",
    "tools": "Reading many files",
}


def machine() -> dict[str, str]:
    """The machine and the versions."""
    packages = ("torch", "pytorch-lightning", "determined")
    return {
        "processor": _processor(),
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
        **{package: version(package) for package in packages},
    }


def _processor() -> str:
    with open("/proc/cpuinfo") as file:
        names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return names[0] if names else platform.machine()


def ratios(ours: Sequence[float], base: Sequence[float]) -> tuple[float, float, float]:
    """Median, lowest and highest ratio of what was measured one after the other."""
    found = [a / b for a, b in zip(ours, base, strict=True)]
    return statistics.median(found), min(found), max(found)


def as_markdown(figures: Figures) -> str:
    """The tables of each part that was measured, below the command that measures it."""
    tables: dict[str, Callable[[Any], list[str]]] = {
        "throughput": lambda found: [_throughput(found)],
        "start": lambda found: [_medians(what, series) for what, series in found.items()],
        "growth": _grown,
        "saving": lambda found: [_points("model", found)],
        "resuming": lambda found: [_points("", {"det_compat": found})],
        "tools": lambda found: [_points("files", found)],
    }
    return "\n\n".join(
        "\n\n".join(
            [f"### {_HEADS[name]}", f"`make bench BENCH_ARGS='--parts {name}'`", *of(figures[name])]
        )
        for name, of in tables.items()
        if figures.get(name)
    )


def _grown(found: Mapping[str, Any]) -> list[str]:
    tables = [_points(thing, series) for thing, series in found.items()]
    plots = plots_of(found).items()
    return tables + [f"![{quantity}, {thing}]({name})" for name, (thing, quantity) in plots]


def _points(thing: str, series: Mapping[str, Mapping[str, Mapping[str, float]]]) -> str:
    """A row for each size and contender, whichever of them is the outer one."""
    quantities: dict[str, None] = {}
    for points in series.values():
        for point in points.values():
            quantities.update(dict.fromkeys(point))
    rows = [
        [outer, inner, *(_number(point.get(quantity)) for quantity in quantities)]
        for outer, points in series.items()
        for inner, point in points.items()
    ]
    return _table([thing, "", *quantities], rows)


def _number(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _throughput(found: Mapping[str, Series]) -> str:
    head = ["workload", "contender", "batches/s", *(f"x {base}" for base in BASES)]
    rows = []
    for workload, series in found.items():
        for name in OURS:
            cells = [_ratio(series[name], series[base]) for base in BASES]
            rows.append([workload, name, f"{statistics.median(series[name]):,.0f}", *cells])
    return _table(head, rows)


def _ratio(ours: Sequence[float], base: Sequence[float]) -> str:
    median, low, high = ratios(ours, base)
    return f"**{median:.2f}** ({low:.2f}-{high:.2f})"


def _medians(quantity: str, series: Series) -> str:
    rows = [
        [name, f"{statistics.median(values):.4g}", f"{min(values):.4g}-{max(values):.4g}"]
        for name, values in series.items()
    ]
    return _table([quantity, "median", "spread"], rows)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def write_page(page: Path, figures: Figures) -> None:
    """Replace what stands between the marks of ``page`` by the tables and the machine.

    Raises:
        ValueError: the page has no such marks.
    """
    before, after = around_tables(page.read_text(encoding="utf-8"), page)
    page.write_text(before + middle_of(figures) + after, encoding="utf-8")


def middle_of(figures: Figures) -> str:
    """What a page has between its marks: the machine, and the tables."""
    where = ", ".join(f"{name} {value}" for name, value in figures["machine"].items())
    rounds = f"{figures['alternations']} rounds"
    return f"\n\n{where}; {rounds}\n\n{as_markdown(figures)}\n\n"


def around_tables(text: str, page: Path) -> tuple[str, str]:
    """What a page has before its tables and after them, the marks included.

    Raises:
        ValueError: the page has no marks.
    """
    start, end = text.find(_START), text.find(_END)
    if not 0 <= start < end:
        raise ValueError(f"{page} has no {_START} and {_END} to put the tables between")
    return text[: start + len(_START)], text[end:]

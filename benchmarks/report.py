"""Tables of what was measured."""

from __future__ import annotations

import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TypedDict

Series = Mapping[str, list[float]]

_START, _END = "<!-- tables -->", "<!-- end of tables -->"

BASES = ("plain PyTorch", "lean Lightning", "usual Lightning", "determined 0.38.1")
OURS = ("to_lightning", "pytorch.Trainer")


class Figures(TypedDict):
    """What a run of the benchmarks measured, by workload or quantity, and contender."""

    throughput: dict[str, dict[str, list[float]]]
    start: dict[str, dict[str, list[float]]]


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
    """The tables: throughput as ratios, and absolute values for the start."""
    parts = []
    if figures["throughput"]:
        parts.append(_throughput(figures["throughput"]))
    parts += [_medians(quantity, series) for quantity, series in figures["start"].items()]
    return "\n\n".join(parts)


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


def write_page(page: Path, tables: str, machine: Mapping[str, str]) -> None:
    """Replace what stands between the marks of ``page`` by the tables and the machine.

    Raises:
        ValueError: the page has no such marks.
    """
    text = page.read_text(encoding="utf-8")
    start, end = (text.find(mark) for mark in (_START, _END))
    if not 0 <= start < end:
        raise ValueError(f"{page} has no {_START} and {_END} to put the tables between")
    where = ", ".join(f"{name} {value}" for name, value in machine.items())
    middle = f"{_START}\n\n{where}\n\n{tables}\n\n"
    page.write_text(text[:start] + middle + text[end:], encoding="utf-8")

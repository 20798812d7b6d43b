"""A report for people, by Rich."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import TYPE_CHECKING

from det_compat.check.findings import Finding, Place, Report, Status, Unreadable

if TYPE_CHECKING:
    from rich.console import Console

_TITLES = {
    Status.UNKNOWN: ("Unknown", "yellow"),
    Status.REFUSED: ("Refused", "red"),
    Status.DIFFERENT: ("Works differently", "cyan"),
}


def show(report: Report, verbose: bool = False) -> None:
    """Print the report; ``verbose`` lists what works as it is, too.

    Raises:
        ImportError: Rich is not installed.
    """
    try:
        from rich.console import Console
    except ImportError as error:
        raise ImportError(
            "the readable form needs Rich: pip install 'det-compat[cli]', or choose "
            "--format json or --format github"
        ) from error
    console = Console(highlight=False, soft_wrap=True)
    _show_trials(console, report)
    for status, (title, color) in _TITLES.items():
        _show_findings(console, report.with_status(status), title, color)
    if verbose:
        _show_findings(console, report.with_status(Status.SAME), "Works as it is", "green")
    _show_problems(console, report.unreadable, "Could not be read")
    _show_problems(console, report.dynamic, "Decided at run time, so not known")
    _show_summary(console, report)


def _heading(console: Console, title: str, color: str) -> None:
    console.print(f"\n{title}", style=f"bold {color}")


def _show_trials(console: Console, report: Report) -> None:
    if report.trials:
        _heading(console, "Trials", "blue")
    for trial in report.trials:
        _print(console, f"  {trial.name}: {trial.generation}", where(trial.place))


def _print(console: Console, text: str, dim: str) -> None:
    console.print(text, end="  ", markup=False)
    console.print(dim, style="dim", markup=False)


def _show_findings(console: Console, findings: Iterable[Finding], title: str, color: str) -> None:
    found = sorted(findings, key=lambda f: (f.support.link, f.support.note, f.name, f.place))
    if found:
        _heading(console, f"{title} ({len(found)})", color)
    for support, group in groupby(found, key=lambda f: f.support):
        if support.note:
            _print(console, f"  {support.note}", support.link)
        for name, same in groupby(group, key=lambda f: f.name):
            _print(console, f"    {name}", _wheres([f.place for f in same]))


def _show_problems(console: Console, problems: list[Unreadable], title: str) -> None:
    if problems:
        _heading(console, f"{title} ({len(problems)})", "yellow")
    for problem in sorted(problems, key=lambda p: p.place):
        _print(console, f"  {where(problem.place)}", problem.reason)


def _wheres(places: list[Place]) -> str:
    """``model_def.py:3:1, 7:5; data.py:1:1``."""
    by_file = groupby(sorted(places), key=lambda place: (place.file, place.cell))
    return "; ".join(
        f"{_file(file, cell)}:" + ", ".join(f"{p.line}:{p.column}" for p in group)
        for (file, cell), group in by_file
    )


def _file(file: str, cell: int) -> str:
    return f"{file}[cell {cell}]" if cell else file


def where(place: Place) -> str:
    """``model_def.py:3:1``."""
    return f"{_file(place.file, place.cell)}:{place.line}:{place.column}"


def _show_summary(console: Console, report: Report) -> None:
    same, different, refused, unknown = (len(report.with_status(status)) for status in Status)
    files = "1 file" if report.files == 1 else f"{report.files} files"
    console.print(
        f"\n{files}, {len(report.findings)} references to Determined: {same} work as they are, "
        f"{different} differently, {refused} are refused, {unknown} are unknown; "
        f"{len(report.unreadable)} places could not be read, {len(report.dynamic)} are decided at "
        "run time"
    )
    if report.skipped:
        listed = ", ".join(f"{name} ({count})" for name, count in sorted(report.skipped.items()))
        console.print(f"left out: {listed}", markup=False)
    if not report.files:
        console.print("nothing was checked: there is no Python file or notebook", style="red")

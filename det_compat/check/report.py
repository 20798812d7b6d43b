"""What ``check`` reports: as text for people, as JSON, and as annotations of a GitHub workflow."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any

from det_compat.analysis.source import Position, Unreadable
from det_compat.catalog.status import Status, Support
from det_compat.shared.extras import how_to_install

if TYPE_CHECKING:
    from rich.console import Console

_TITLES = {
    Status.UNKNOWN: ("Unknown", "yellow"),
    Status.REFUSED: ("Refused", "red"),
    Status.DIFFERENT: ("Works differently", "cyan"),
}
_LEVELS = {Status.DIFFERENT: "notice", Status.REFUSED: "error", Status.UNKNOWN: "warning"}


@dataclass(frozen=True, slots=True)
class Finding:
    """One reference to Determined."""

    position: Position
    name: str
    support: Support


@dataclass(frozen=True, slots=True)
class Trial:
    """A trial class, or a script that trains with ``pytorch.Trainer``."""

    position: Position
    name: str
    generation: str


@dataclass
class Report:
    """Everything that was found below the paths that were given."""

    files: int = 0
    findings: list[Finding] = field(default_factory=list)
    trials: list[Trial] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)
    dynamic: list[Unreadable] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)

    def with_status(self, status: Status) -> list[Finding]:
        """The findings of one status."""
        return [found for found in self.findings if found.support.status is status]

    @property
    def works(self) -> bool:
        """Whether all of it runs under det_compat, as far as reading can tell."""
        bad = (Status.REFUSED, Status.UNKNOWN)
        readable = bool(self.files) and not self.unreadable and not self.dynamic
        return readable and not any(found.support.status in bad for found in self.findings)


def print_text(report: Report, verbose: bool = False) -> None:
    """Print the report by Rich; ``verbose`` lists what works as it is, too.

    Raises:
        ImportError: Rich is not installed.
    """
    try:
        from det_compat.shared import terminal
    except ImportError as error:
        raise ImportError(
            f"the readable form needs Rich: {how_to_install('cli')}, or choose "
            "--format json or --format github"
        ) from error
    console = terminal.console(highlight=False, soft_wrap=True)
    if report.trials:
        _heading(console, "Trials", "blue")
    _print(
        console,
        ((f"  {t.name}: {t.generation}", _positions([t.position])) for t in report.trials),
    )
    for status, (title, color) in _TITLES.items():
        _print_findings(console, report.with_status(status), title, color)
    if verbose:
        _print_findings(console, report.with_status(Status.SAME), "Works as it is", "green")
    _print_problems(console, report.unreadable, "Could not be read")
    _print_problems(console, report.dynamic, "Decided at run time, so not known")
    _print_summary(console, report)


def _heading(console: Console, title: str, color: str) -> None:
    console.print(f"\n{title}", style=f"bold {color}")


def _print(console: Console, lines: Iterable[tuple[str, str]]) -> None:
    """Print lines of which the second part is dim; one print of them all takes a quarter of it."""
    from rich.text import Text

    text = Text()
    for first, dim in lines:
        text.append(f"{first}  ").append(f"{dim}\n", "dim")
    console.print(text, end="")


def _print_findings(console: Console, findings: Iterable[Finding], title: str, color: str) -> None:
    found = sorted(findings, key=lambda f: (f.support.link, f.support.note, f.name, f.position))
    if found:
        _heading(console, f"{title} ({len(found)})", color)
    _print(console, _lines(found))


def _lines(findings: list[Finding]) -> Iterator[tuple[str, str]]:
    for support, group in groupby(findings, key=lambda f: f.support):
        if support.note:
            yield f"  {support.note}", support.link
        for name, same in groupby(group, key=lambda f: f.name):
            yield f"    {name}", _positions([f.position for f in same])


def _print_problems(console: Console, problems: list[Unreadable], title: str) -> None:
    if problems:
        _heading(console, f"{title} ({len(problems)})", "yellow")
    in_order = sorted(problems, key=lambda p: p.position)
    _print(console, ((f"  {_positions([p.position])}", p.reason) for p in in_order))


def _positions(positions: list[Position]) -> str:
    """``model_def.py:3:1, 7:5; data.py:1:1``, and in a notebook ``a.ipynb[cell 2]:3:1``."""
    by_file = groupby(sorted(positions), key=lambda p: (p.file, p.cell))
    return "; ".join(
        (f"{file}[cell {cell}]:" if cell else f"{file}:")
        + ", ".join(f"{p.line}:{p.column}" for p in group)
        for (file, cell), group in by_file
    )


def _print_summary(console: Console, report: Report) -> None:
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
        console.print(f"left out: {listed}")
    if not report.files:
        console.print("nothing was checked: there is no Python file or notebook", style="red")


def as_json(report: Report) -> str:
    """One JSON object; lines and columns count from 1, ``cell`` is there in notebooks only."""
    findings = [
        {
            **_fields(found.position),
            "name": found.name,
            **found.support._asdict(),
            "status": found.support.status.value,
        }
        for found in report.findings
    ]
    return json.dumps(
        {
            "works": report.works,
            "files": report.files,
            "counts": {
                **{status.value: len(report.with_status(status)) for status in Status},
                "unreadable": len(report.unreadable),
                "dynamic": len(report.dynamic),
            },
            "findings": findings,
            "trials": [
                {**_fields(trial.position), "name": trial.name, "generation": trial.generation}
                for trial in report.trials
            ],
            "unreadable": [{**_fields(p.position), "reason": p.reason} for p in report.unreadable],
            "dynamic": [{**_fields(p.position), "reason": p.reason} for p in report.dynamic],
            "skipped": report.skipped,
        },
        indent=2,
    )


def _fields(position: Position) -> dict[str, Any]:
    cell = {"cell": position.cell} if position.cell else {}
    return {"file": position.file, **cell, "line": position.line, "column": position.column}


def as_annotations(report: Report) -> str:
    """One ``::error file=...`` line for each refusal, ``warning`` and ``notice`` for the rest.

    What works as it is has none.
    """
    return "\n".join(_annotations(report))


def _annotations(report: Report) -> Iterator[str]:
    for found in report.findings:
        status, note, link = found.support
        if status is not Status.SAME:
            verb = "works differently" if status is Status.DIFFERENT else status.value
            see = f" ({link})" if link else ""
            yield _annotation(_LEVELS[status], found.position, found.name, f"{verb}: {note}{see}")
    for problem in (*report.unreadable, *report.dynamic):
        reason = f"not read: {problem.reason}"
        yield _annotation("warning", problem.position, "det-compat check", reason)


def _annotation(level: str, position: Position, title: str, message: str) -> str:
    where = f"file={_value(position.file)},line={position.line},col={position.column}"
    cell = f"cell {position.cell}: " if position.cell else ""
    return f"::{level} {where},title={_value(title)}::{_message(cell + message)}"


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _value(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")

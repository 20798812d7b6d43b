"""A report as annotations of a GitHub workflow."""

from __future__ import annotations

from collections.abc import Iterator

from det_compat.check.findings import Place, Report, Status

_LEVELS = {Status.DIFFERENT: "notice", Status.REFUSED: "error", Status.UNKNOWN: "warning"}


def show(report: Report) -> str:
    """One ``::error file=...`` line for each refusal, ``warning`` and ``notice`` for the rest.

    What works as it is has none.
    """
    return "\n".join(_annotations(report))


def _annotations(report: Report) -> Iterator[str]:
    for found in report.findings:
        support = found.support
        if support.status is not Status.SAME:
            see = f" ({support.link})" if support.link else ""
            message = f"{_verb(support.status)}: {support.note}{see}"
            yield _line(_LEVELS[support.status], found.place, found.name, message)
    for problem in (*report.unreadable, *report.dynamic):
        yield _line("warning", problem.place, "det-compat check", f"not read: {problem.reason}")


def _verb(status: Status) -> str:
    return {Status.DIFFERENT: "works differently"}.get(status, status.value)


def _line(level: str, place: Place, title: str, message: str) -> str:
    where = f"file={_value(place.file)},line={place.line},col={place.column}"
    cell = f"cell {place.cell}: " if place.cell else ""
    return f"::{level} {where},title={_value(title)}::{_message(cell + message)}"


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _value(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")

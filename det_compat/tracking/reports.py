"""What a run has reported since it was last asked, as single numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from det_compat.script.reported import numbers, reports
from det_compat.script.run_paths import METRICS
from det_compat.search.records import REPORTS

# MLflow 3.17 takes no more of a name, and no other characters.
_LONGEST = 250
_NOT_IN_NAMES = re.compile(r"[^\w\-. :/]|/(?=/|$)|(?<![^/])\.+(?=/|$)")
_MOST_BYTES = 4 << 20  # read at once


@dataclass(frozen=True)
class Value:
    """One number that was reported.

    Attributes:
        name: its group and its name, ``training/loss``.
        value: may be NaN or infinite.
        step: the batches trained; of the machine's load, seconds since the run began.
        time: when it was reported, in seconds since 1970.
    """

    name: str
    value: float
    step: int
    time: float


def read_new(folder: Path, offset: int, *, began: float, now: float) -> tuple[list[Value], int]:
    """The numbers in ``metrics.jsonl`` of a run from a place in the file on, and the next place.

    Texts, lists and the like are left out. A line that is not complete yet is left for later. Not
    everything may be returned at once: nothing is left when the place stays the same.

    Args:
        folder: the run's.
        offset: bytes that were read before.
        began: when the run began, in seconds since 1970.
        now: the time of reports that have none.
    """
    try:
        with _file(folder).open("rb") as file:
            file.seek(offset)
            read = file.read(_MOST_BYTES)
            if len(read) == _MOST_BYTES:
                read += file.readline()
    except OSError:
        return [], offset
    whole = read[: read.rfind(b"\n") + 1]
    values = [value for one in reports(whole.splitlines()) for value in _values(one, began, now)]
    return values, offset + len(whole)


def _file(folder: Path) -> Path:
    """Where reports are: of a trial that something else than det_compat trains, the search's."""
    found = folder / METRICS
    return found if found.exists() else folder / REPORTS


def _values(report: dict[str, Any], began: float, now: float) -> Iterator[Value]:
    step, time = report.get("steps_completed", report.get("batches")), report.get("time")
    time = time if isinstance(time, (int, float)) else now
    step = step if isinstance(step, int) else max(round(time - began), 0)
    # What a search keeps are validations.
    for name, value in numbers(report["metrics"], f"{report.get('group', 'validation')}/"):
        yield Value(name, value, step, time)


class Names:
    """The names under which MLflow has metrics and hyperparameters.

    Args:
        known: the names that have become others before, by what they have become; is added to.
    """

    def __init__(self, known: dict[str, str]) -> None:
        self.known = known

    def __call__(self, name: str) -> str:
        """``name``, with ``_`` in place of what MLflow does not take, unlike that of any other."""
        made = _NOT_IN_NAMES.sub("_", name).lstrip("/")[:_LONGEST] or "_"
        if made == name and made not in self.known:
            return name
        while self.known.setdefault(made, name) != name:
            made = f"{made[: _LONGEST - 1]}_"
        return made

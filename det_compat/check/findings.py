"""What ``det-compat check`` finds."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from pathlib import Path


class Status(enum.Enum):
    """What becomes of a reference to Determined under det_compat, best first."""

    SAME = "same"
    DIFFERENT = "different"
    REFUSED = "refused"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Support:
    """A status, what to know about it, and where MIGRATION.md says more."""

    status: Status
    note: str = ""
    link: str = ""


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A line and column, both from 1; in a notebook those of the code cell number ``cell``."""

    file: str
    cell: int
    line: int
    column: int


def start_of(path: Path) -> Place:
    """The first character of a file; a name that is no UTF-8 can be printed all the same."""
    return Place(printable(path), 0, 1, 1)


def printable(path: Path) -> str:
    """A path for people and for JSON."""
    return path.as_posix().encode(errors="surrogateescape").decode(errors="replace")


@dataclass(frozen=True, slots=True)
class Finding:
    """One reference to Determined."""

    place: Place
    name: str
    support: Support


@dataclass(frozen=True, slots=True)
class Unreadable:
    """What could not be read: a file, a cell, or code that decides at run time what it means."""

    place: Place
    reason: str


@dataclass(frozen=True, slots=True)
class Trial:
    """A trial class, or a script that trains with ``pytorch.Trainer``."""

    place: Place
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

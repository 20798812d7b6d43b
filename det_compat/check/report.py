"""What ``det-compat check`` reports."""

from __future__ import annotations

from dataclasses import dataclass, field

from det_compat.analysis.source import Position, Unreadable
from det_compat.catalog.status import Status, Support


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

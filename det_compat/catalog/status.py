"""What becomes of a name of Determined under det_compat."""

from __future__ import annotations

import enum
from typing import NamedTuple, TypeVar

_T = TypeVar("_T")


class Status(enum.Enum):
    """What becomes of a reference to Determined, best first."""

    SAME = "same"
    DIFFERENT = "different"
    REFUSED = "refused"
    UNKNOWN = "unknown"


class Support(NamedTuple):
    """A status, what to know about it, and where MIGRATION.md says more."""

    status: Status
    note: str = ""
    link: str = ""


SAME = Support(Status.SAME)


def different(note: str, heading: str) -> Support:
    """The name works, but not in every respect as in Determined 0.38.1."""
    return Support(Status.DIFFERENT, note, f"MIGRATION.md#{heading}")


def refused(note: str, heading: str) -> Support:
    """The name raises an error; the note says what to do instead, without a full stop."""
    return Support(Status.REFUSED, note, f"MIGRATION.md#{heading}")


def each(names: str, value: _T) -> dict[str, _T]:
    """A table in which every one of ``names``, which spaces separate, has one value."""
    return dict.fromkeys(names.split(), value)

"""What becomes of a name of Determined under det_compat."""

import enum
from collections.abc import Mapping
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


def verdicts(
    same: str = "",
    different: Mapping[str, str] | None = None,
    refused: Mapping[str, str] | None = None,
) -> dict[str, Support]:
    """What becomes of each name of a module or class.

    Spaces separate the names. A note ends with ``#`` and the heading of MIGRATION.md on it.
    """
    found = each(same, SAME)
    for status, notes in ((Status.DIFFERENT, different), (Status.REFUSED, refused)):
        for names, note in (notes or {}).items():
            text, _, heading = note.rpartition(" #")
            found.update(each(names, Support(status, text, f"MIGRATION.md#{heading}")))
    return found

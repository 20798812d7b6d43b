"""What becomes of a name of Determined under det_compat."""

import enum
from typing import Any, NamedTuple


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


def verdicts(entry: dict[str, Any]) -> dict[str, Support]:
    """What becomes of each name of a module or class, given its entry in the catalog."""
    found = dict.fromkeys(entry.get("same", "").split(), SAME)
    for status, make in (("different", different), ("refused", refused)):
        for group in entry.get(status, ()):
            support = make(group["note"], group["see"])
            found.update(dict.fromkeys(group["names"].split(), support))
    return found

"""Every key that an experiment config of PEDL or Determined 0.12 to 0.38 may have."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import cache

from det_compat.config.keys.kinds import Kind


class Fate(Enum):
    """What happens to a key on one machine."""

    MAPPED = "mapped"
    IGNORED = "ignored"
    REFUSED = "refused"


@dataclass(frozen=True)
class Key:
    """A key: its dotted path, the type of its value, and what it becomes.

    ``versions`` is the first that is known to have it, and the last if it was taken away.
    """

    path: str
    kind: Kind
    versions: str
    fate: Fate
    becomes: str


def mapped(path: str, kind: Kind, versions: str, becomes: str) -> Key:
    """A key that has its effect here too."""
    return Key(path, kind, versions, Fate.MAPPED, becomes)


def ignored(path: str, kind: Kind, versions: str, why: str) -> Key:
    """A key that only makes sense on a cluster, or not at all."""
    return Key(path, kind, versions, Fate.IGNORED, why)


def refused(path: str, kind: Kind, versions: str, why: str) -> Key:
    """A key that asks for what cannot be done here."""
    return Key(path, kind, versions, Fate.REFUSED, why)


@cache
def keys() -> dict[str, Key]:
    """All keys by path, sections before what is in them."""
    from det_compat.config.keys import rows_cluster, rows_experiment, rows_searcher, rows_storage

    groups = (rows_experiment, rows_searcher, rows_storage, rows_cluster)
    return {key.path: key for rows in groups for key in rows.ROWS}


@cache
def children(section: str) -> dict[str, Key]:
    """The keys of a section by name; those of the config itself for ""."""
    prefix = f"{section}." if section else ""
    return {
        path.removeprefix(prefix): key
        for path, key in keys().items()
        if path.startswith(prefix) and "." not in path.removeprefix(prefix)
    }

"""Every key that an experiment config of PEDL or Determined 0.12 to 0.38 may have."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any

from det_compat.config.keys import kinds
from det_compat.shared.data_files import data_beside

#: The default of a key that Determined's master left out where a config does not give it.
ABSENT = object()


class Fate(Enum):
    """What happens to a key on one machine."""

    MAPPED = "mapped"
    IGNORED = "ignored"
    REFUSED = "refused"


@dataclass(frozen=True)
class Key:
    """A key of a config, or of one of its sections.

    Attributes:
        fate: whether it has its effect here.
        kind: the type of its value.
        becomes: what it becomes here, or why it is ignored or refused.
        versions: the first version that is known to have it, and the last if it was taken away.
        default: what Determined 0.38's master filled in where a config does not give it.
    """

    fate: Fate
    kind: kinds.Kind
    becomes: str
    versions: str = "0.12"
    default: Any = ABSENT


#: The name of each searcher, and the name of the one that does its work now.
SUCCESSORS = {
    "single": "single",
    "random": "random",
    "grid": "grid",
    "async_halving": "async_halving",
    "asha": "async_halving",
    "adaptive_asha": "adaptive_asha",
    "adaptive_simple": "adaptive_asha",
    "adaptive": "adaptive_asha",
    "sync_halving": "async_halving",
    "pbt": "pbt",
    "custom": "custom",
}
#: The types of checkpoint storage, and what each cannot do without.
STORAGE_REQUIRES = {
    "shared_fs": ("host_path",),
    "directory": ("container_path",),
    "s3": ("bucket",),
    "gcs": ("bucket",),
    "azure": ("container",),
    "hdfs": (),
}
HDFS_REFUSAL = "hdfs storage is not supported: Determined itself gave it up"

_KINDS = {
    "text": kinds.TEXT,
    "boolean": kinds.BOOLEAN,
    "number": kinds.NUMBER,
    "list": kinds.LIST,
    "mapping": kinds.MAPPING,
    "anything": kinds.ANYTHING,
    "section": kinds.SECTION,
    "period": kinds.PERIOD,
    "length": kinds.LENGTH,
    "unit": kinds.one_of(*kinds.UNITS),
    "searcher": kinds.one_of(*SUCCESSORS),
    "storage": kinds.one_of(*STORAGE_REQUIRES),
}
_KINDS_OF: dict[str, Callable[..., kinds.Kind]] = {
    "integer": lambda *ends: kinds.integer(*map(int, ends)),
    "number_above": lambda bound: kinds.number_above(float(bound)),
    "one_of": kinds.one_of,
    "list_of": lambda item: kinds.list_of(_kind(item)),
}


def _kind(words: str) -> kinds.Kind:
    """The type that ``words`` of ``keys.yaml`` stand for."""
    alternatives = words.split(" or ")
    if len(alternatives) > 1:
        return kinds.either(*map(_kind, alternatives))
    call = re.fullmatch(r"(\w+)\((.*)\)", words)
    return _KINDS_OF[call[1]](*call[2].split(", ")) if call else _KINDS[words]


def _key(fate: str, value: str, **more: Any) -> Key:
    return Key(Fate(fate), _kind(value), **more)


def _read() -> dict[str, dict[str, Key]]:
    sections = data_beside(__file__, "keys.yaml")
    return {
        "" if section == "experiment" else section: {
            name: _key(**entry) for name, entry in entries.items()
        }
        for section, entries in sections.items()
    }


#: The keys of each section by name; those of the config itself for "".
SECTIONS = _read()


@cache
def keys() -> dict[str, Key]:
    """All keys by dotted path, each section before the keys in it."""
    found: dict[str, Key] = {}
    for name, key in SECTIONS[""].items():
        found[name] = key
        found |= {f"{name}.{inner}": other for inner, other in SECTIONS.get(name, {}).items()}
    return found

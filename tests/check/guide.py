"""MIGRATION.md, as far as the table of ``check`` must agree with it."""

from __future__ import annotations

import functools
import re
from pathlib import Path
from typing import NamedTuple

GUIDE = Path(__file__).parents[2] / "MIGRATION.md"
_ROW = re.compile(r"^\| `(\w+)` \| (\w+)(?:: )?(.*) \|$")


class Row(NamedTuple):
    name: str
    status: str
    reason: str


def _outside_code() -> list[str]:
    parts = re.split(r"^```.*$", GUIDE.read_text(), flags=re.MULTILINE)
    return "\n".join(parts[::2]).splitlines()


@functools.cache
def anchors() -> frozenset[str]:
    """The anchors that GitHub makes of the headings."""
    titles = [line.lstrip("#").strip() for line in _outside_code() if line.startswith("#")]
    return frozenset(re.sub(r"[^\w\- ]", "", t.lower()).replace(" ", "-") for t in titles)


@functools.cache
def rows() -> tuple[Row, ...]:
    """The rows of the tables of names of determined.pytorch; members as ``Class.member``."""
    found, chapter, owner = [], "", ""
    for line in _outside_code():
        if line.startswith("## "):
            chapter, owner = line[3:].strip("`"), ""
        elif line.startswith("### "):
            owner = line[4:].strip("`") + "."
        elif chapter == "determined.pytorch" and (row := _ROW.match(line)):
            found.append(Row(owner + row[1], row[2], row[3]))
    return tuple(found)

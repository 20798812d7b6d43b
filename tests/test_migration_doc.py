"""MIGRATION.md names every public name once, with a status that the code bears out."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from determined import pytorch as determined_pytorch

import det_compat.pytorch.experimental  # noqa: F401 - it is a name of pytorch only then
from det_compat import pytorch
from tests.determined_api import REFUSED, all_names, resolve

ROOT = Path(__file__).parents[1]
GUIDE = (ROOT / "MIGRATION.md").read_text()

HEADING = re.compile(r"^(#{1,6}) (.+)$")
ROW = re.compile(r"^\| `(?P<name>\w+)` \| (?P<status>.+) \|$")
LINK = re.compile(r"(?:MIGRATION\.md|\])\(?#([\w-]+)")


class Row(NamedTuple):
    name: str
    status: str
    reason: str


def lines_outside_code() -> list[str]:
    lines, inside = [], False
    for line in GUIDE.splitlines():
        if line.startswith("```"):
            inside = not inside
        elif not inside:
            lines.append(line)
    return lines


def rows() -> list[Row]:
    """The rows of the tables of names; below a third-level heading, its class or module's names."""
    found, chapter, owner = [], "", ""
    for line in lines_outside_code():
        if heading := HEADING.match(line):
            level, title = len(heading[1]), heading[2].strip("`")
            chapter, owner = (title, "") if level < 3 else (chapter, f"{title}.")
        elif (row := ROW.match(line)) and chapter == "determined.pytorch":
            status, _, reason = row["status"].partition(": ")
            found.append(Row(owner + row["name"], status, reason))
    return found


def anchors() -> list[str]:
    """The anchors that GitHub makes of the headings."""
    titles = [heading[2] for line in lines_outside_code() if (heading := HEADING.match(line))]
    return [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]


def with_status(*statuses: str) -> list[str]:
    return [row.name for row in rows() if row.status in statuses]


def has(root: Any, dotted: str) -> bool:
    """Whether ``root`` has the name, as an attribute or as one that ``__init__`` sets on self."""
    owner_name, _, attribute = dotted.rpartition(".")
    owner = resolve(root, owner_name) if owner_name else root
    if hasattr(owner, attribute):
        return True
    inits = [vars(base).get("__init__") for base in getattr(owner, "__mro__", ())]
    return any(attribute in init.__code__.co_names for init in inits if hasattr(init, "__code__"))


def test_every_public_name_has_one_row() -> None:
    counted = Counter(row.name for row in rows())
    assert {name for name, times in counted.items() if times > 1} == set()
    assert set(counted) == set(all_names())


def test_statuses_are_known_and_explained() -> None:
    for row in rows():
        assert row.status in ("same", "different", "refused"), row
        assert bool(row.reason) == (row.status != "same"), row
        assert not row.reason or LINK.search(row.reason), f"{row} links to no heading"


@pytest.mark.parametrize("name", with_status("same", "different"))
def test_what_is_not_refused_is_there(name: str) -> None:
    assert has(determined_pytorch, name)
    assert has(pytorch, name)


def test_what_is_refused_is_not_there() -> None:
    assert set(with_status("refused")) == REFUSED
    assert [name for name in REFUSED if has(pytorch, name)] == []


def test_anchors_are_unique() -> None:
    assert [anchor for anchor, times in Counter(anchors()).items() if times > 1] == []


def test_links_within_the_guide_lead_somewhere() -> None:
    assert set(LINK.findall(GUIDE)) <= set(anchors())


@pytest.mark.parametrize(
    "path",
    [
        path
        for folder in ("det_compat", "adapters", "examples")
        for path in sorted((ROOT / folder).rglob("*.py"))
        if "MIGRATION.md" in path.read_text()
    ]
    + [ROOT / "README.md"],
    ids=lambda path: path.relative_to(ROOT).as_posix(),
)
def test_links_in_code_lead_somewhere(path: Path) -> None:
    assert set(LINK.findall(path.read_text())) <= set(anchors())

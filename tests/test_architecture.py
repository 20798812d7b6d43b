"""The map of the code names what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NAMED = re.compile(r"`((?:det_compat|adapters|tests|docs|examples|benchmarks)/[\w./-]+)`")


DOCUMENTS = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("*.md"))


@pytest.mark.parametrize(
    "document",
    [*DOCUMENTS, *(f"docs/{path.name}" for path in sorted((ROOT / "docs").glob("*.md")))],
)
def test_files_that_are_named_are_there(document: str) -> None:
    names = set(NAMED.findall((ROOT / document).read_text()))
    assert sorted(name for name in names if not (ROOT / name).exists()) == []


def test_the_map_names_files() -> None:
    assert len(NAMED.findall((ROOT / "ARCHITECTURE.md").read_text())) > 50


def test_every_room_is_on_the_map() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    rooms = {
        path.parent.relative_to(ROOT).as_posix()
        for pattern in ("det_compat/*/__init__.py", "adapters/*/__init__.py")
        for path in ROOT.glob(pattern)
    } - {"det_compat/adapters"}
    assert sorted(room for room in rooms if f"`{room}`" not in text) == []

"""The page of all names: each is there once, and its links are headings of MIGRATION.md."""

from __future__ import annotations

import re

from det_compat.catalog.names import COMMANDS, MODULES, REFUSED
from det_compat.catalog.support import exports
from docs.names_page import names_page
from tests.markdown import anchors, read

PAGE = names_page()


def test_every_name_is_there() -> None:
    for module in MODULES:
        for name in exports(module):
            section = PAGE.split(f"## `{module}`\n")[1].split("\n## ")[0]
            assert f"| `{name}` | " in section
    assert {*REFUSED, *COMMANDS} <= {*re.findall(r"^\| `([^`]+)` \|", PAGE, re.MULTILINE)}
    assert PAGE.count("### `determined.pytorch.PyTorchTrialContext`") == 1
    assert "| `get_hparam` | works |" in PAGE


def test_links_lead_to_headings() -> None:
    known = anchors(read("MIGRATION.md"))
    assert {*re.findall(r"\(MIGRATION.md#([^)]+)\)", PAGE)} - {*known} == set()
    rows = [line for line in PAGE.splitlines() if line.startswith("| ")]
    assert {len(re.split(r"(?<!\\)\|", row)) for row in rows} == {5}

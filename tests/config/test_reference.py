from __future__ import annotations

from pathlib import Path

from det_compat.config.keys.table import keys
from det_compat.config.reference import render

PAGE = Path(__file__).parents[2] / "docs/experiment-config.md"


def test_the_page_is_what_the_table_says() -> None:
    command = "python -m det_compat.config.reference > docs/experiment-config.md"
    assert PAGE.read_text() == render(), command


def test_every_key_has_one_row() -> None:
    page = render()
    for path in keys():
        assert page.count(f"\n| `{path}` |") == 1

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.report import BASES, OURS, as_markdown, ratios, write_page


def test_ratios_are_of_the_same_round() -> None:
    assert ratios([2.0, 30.0, 8.0], [1.0, 10.0, 2.0]) == (3.0, 2.0, 4.0)
    with pytest.raises(ValueError):
        ratios([1.0], [1.0, 2.0])


def test_tables() -> None:
    series = {**{key: [1.0, 2.0] for key in BASES}, **{key: [3.0, 8.0] for key in OURS}}
    start = {"import in ms": {"torch": [900.0, 1000.0, 2000.0]}}
    text = as_markdown({"throughput": {"overhead": series}, "start": start})
    assert "| overhead | to_lightning | 6 | **3.50** (3.00-4.00) |" in text
    assert "| torch | 1000 | 900-2000 |" in text


def test_the_page_gets_the_tables_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- tables -->\nold\n<!-- end of tables -->\nafter\n")
    for _ in range(2):
        write_page(page, "| new |", {"cores": "2"})
    assert page.read_text() == (
        "before\n<!-- tables -->\n\ncores 2\n\n| new |\n\n<!-- end of tables -->\nafter\n"
    )
    page.write_text("no marks")
    with pytest.raises(ValueError, match="has no <!-- tables -->"):
        write_page(page, "", {})

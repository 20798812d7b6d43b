from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import __main__ as benchmark
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


def test_only_a_whole_run_replaces_the_tables_of_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- tables -->old<!-- end of tables -->")
    measured = {"lean Lightning": [1.0], "to_lightning": [2.0]}
    series = {name: [1.0] for name in [*BASES, *OURS]} | measured
    monkeypatch.setattr(benchmark, "measure_throughput", lambda *_: series)
    monkeypatch.setattr(benchmark, "measure_start", lambda *_: {})
    given = ["benchmarks", "--page", str(page), "--json", str(tmp_path / "found.json")]
    for part in (["overhead"], ["--no-start"]):
        monkeypatch.setattr("sys.argv", [*given, *part])
        benchmark.main()
        assert "**2.00**" in capsys.readouterr().out
        assert "old" in page.read_text()
    monkeypatch.setattr("sys.argv", given)
    benchmark.main()
    assert "old" not in page.read_text()
    assert "**2.00**" in page.read_text()

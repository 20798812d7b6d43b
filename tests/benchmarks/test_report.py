from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import __main__ as benchmark
from benchmarks.plots import draw, plots_of
from benchmarks.report import (
    BASES,
    OURS,
    around_tables,
    as_markdown,
    middle_of,
    ratios,
    write_page,
)

DOCS = Path(__file__).resolve().parents[2] / "docs"
GROWTH = {"metrics": {"plain": {"1": {"CPU us": 20.0}, "1000": {"CPU us": 2000.0}}}}


def test_ratios_are_of_the_same_round() -> None:
    assert ratios([2.0, 30.0, 8.0], [1.0, 10.0, 2.0]) == (3.0, 2.0, 4.0)
    with pytest.raises(ValueError):
        ratios([1.0], [1.0, 2.0])


def test_tables() -> None:
    series = {**{key: [1.0, 2.0] for key in BASES}, **{key: [3.0, 8.0] for key in OURS}}
    start = {"import in ms": {"torch": [900.0, 1000.0, 2000.0]}}
    figures = {"throughput": {"overhead": series}, "start": start, "growth": GROWTH}
    text = as_markdown(figures)
    assert "| overhead | to_lightning | 6 | **3.50** (3.00-4.00) |" in text
    assert "| torch | 1000 | 900-2000 |" in text
    assert "| plain | 1000 | 2,000 |" in text
    assert "![CPU us, metrics](growth-metrics-cpu.svg)" in text
    assert "make bench BENCH_ARGS='--parts growth'" in text


def figures(**parts: Any) -> dict[str, Any]:
    return {"machine": {"cores": "2"}, "alternations": 3, **parts}


def test_the_page_gets_the_tables_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- tables -->\nold\n<!-- end of tables -->\nafter\n")
    found = figures(growth=GROWTH)
    for _ in range(2):
        write_page(page, found)
    middle = middle_of(found)
    assert "cores 2; 3 rounds" in middle
    assert page.read_text() == (f"before\n<!-- tables -->{middle}<!-- end of tables -->\nafter\n")
    page.write_text("no marks")
    with pytest.raises(ValueError, match="has no <!-- tables -->"):
        write_page(page, found)


def test_a_plot_is_the_same_file_each_time(tmp_path: Path) -> None:
    drawn = []
    for _ in range(2):
        draw({"growth": GROWTH}, tmp_path)
        drawn.append((tmp_path / "growth-metrics-cpu.svg").read_bytes())
    assert drawn[0] == drawn[1]
    assert drawn[0].startswith(b"<?xml")


def test_only_a_whole_run_replaces_the_tables_of_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- tables -->old<!-- end of tables -->")
    series = {name: [2.0 if name == "to_lightning" else 1.0] for name in [*BASES, *OURS]}
    monkeypatch.setattr(benchmark, "measure_throughput", lambda *_: {"overhead": series})
    for name in benchmark.PARTS.keys() - {"throughput"}:
        found = GROWTH if name == "growth" else {}
        monkeypatch.setitem(benchmark.PARTS, name, lambda _, found=found: found)
    given = ["benchmarks", "--page", str(page), "--json", str(tmp_path / "found.json")]
    for part in (["overhead"], ["--parts", "throughput"], ["--quick"]):
        monkeypatch.setattr("sys.argv", [*given, *part])
        benchmark.main()
        assert "**2.00**" in capsys.readouterr().out
        assert "old" in page.read_text()
        assert not (tmp_path / "benchmarks.json").exists()
    monkeypatch.setattr("sys.argv", given)
    benchmark.main()
    assert "old" not in page.read_text()
    assert "**2.00**" in page.read_text()
    written = json.loads((tmp_path / "benchmarks.json").read_text())
    assert around_tables(page.read_text(), page)[0] == "<!-- tables -->"
    assert middle_of(written) in page.read_text()
    assert (tmp_path / "growth-metrics-cpu.svg").exists()


def test_the_page_is_of_the_figures_beside_it() -> None:
    page, figures_file = DOCS / "performance.md", DOCS / "benchmarks.json"
    text = page.read_text("utf-8")
    before, after = around_tables(text, page)
    found = json.loads(figures_file.read_text("utf-8"))
    assert text == before + middle_of(found) + after
    for name in plots_of(found.get("growth", {})):
        assert (DOCS / name).is_file(), name

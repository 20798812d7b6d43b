from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.matrix import environments, outcome

REPORT = """<testsuites><testsuite tests="7" failures="1" errors="1" skipped="2"/>
<testsuite tests="1" failures="0" errors="0" skipped="0"/></testsuites>"""


def test_the_lowest_versions_are_those_that_are_promised() -> None:
    assert environments.requirement("lowest") == "torch==2.4"
    assert environments.requirement("newest") == "torch"
    newest, lowest = map(environments.constraints, ("newest", "lowest"))
    assert "torch==" not in newest
    assert {"pytest==9.0.3", "numpy==1.26", "ray==2.51.2", "torch==2.4"} <= {*lowest.splitlines()}
    for pins in (newest, lowest):
        assert pins.count("\nray==") == pins.count("\npytest==") == 1


def test_an_environment_is_built_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[list[str]] = []

    def run(command: list[str], **_: Any) -> None:
        commands.append(command)
        (tmp_path / "m" / "lowest").mkdir(exist_ok=True)

    monkeypatch.setattr(environments.subprocess, "run", run)
    for _ in range(2):
        python = environments.build("lowest", tmp_path / "m" / "lowest", sys.executable)
    assert python == str(tmp_path / "m" / "lowest" / "bin" / "python")
    assert [command[1:3] for command in commands] == [["-m", "venv"], ["-m", "pip"]]
    assert "torch==2.4" in commands[1]


def test_a_report_is_a_row(tmp_path: Path) -> None:
    (tmp_path / "x.xml").write_text(REPORT)
    counts = outcome.counted(tmp_path / "x.xml")
    assert counts == (4, 2, 2)
    found = outcome.Outcome("2026-01-01", ["3.11.7", "2.4.0", "2.6.6"], "all", *counts)
    assert found.row() == "| 2026-01-01 | 3.11.7 | 2.4.0 | 2.6.6 | all | 4 | 2 | 2 |"
    assert not found.is_green
    assert outcome.counted(tmp_path / "none.xml") == (0, 1, 0)


def test_the_page_gets_the_table(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"a\n{outcome.START}\nold\n{outcome.END}\nb\n")
    found = outcome.Outcome("d", ["p", "t", "l"], "`tests/core`", 3, 0, 0)
    outcome.write_page(page, [found])
    assert page.read_text().splitlines() == [
        "a",
        outcome.START,
        *outcome.TITLE.splitlines(),
        "| d | p | t | l | `tests/core` | 3 | 0 | 0 |",
        outcome.END,
        "b",
    ]

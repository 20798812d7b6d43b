"""The runner of Determined's tests, on a checkout that is made up."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.determined import __main__ as command
from tests.determined.comparison import REASONS, Comparison, compare, reasons
from tests.determined.running import PARTS, Outcome, run, workplace

# The real one and the alias differ in who has the name `det_compat`.
TESTS = """
import sys
import pytest
from tests import helper

IS_ALIASED = "det_compat" in sys.modules

def test_passes(): assert helper.value == 1
def test_only_real(): assert not IS_ALIASED, "the reason"
@pytest.mark.parametrize("a", [1, 2])
def test_unexplained(a): assert not IS_ALIASED or a == 2
def test_only_aliased(): assert IS_ALIASED
def test_fails(): assert False
@pytest.mark.skip(reason="not here")
def test_skipped(): ...
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    tests = tmp_path / "source" / "harness" / "tests"
    (tests / "core").mkdir(parents=True)
    for package in (tests, tests / "core"):
        (package / "__init__.py").write_text("")
    (tests / "conftest.py").write_text("")
    (tests / "helper.py").write_text("value = 1\n")
    (tests / "core" / "test_it.py").write_text(TESTS)
    return tmp_path / "source"


def test_tests_run_under_both_and_are_compared(source: Path, tmp_path: Path) -> None:
    harness = workplace(source, tmp_path / "place")
    log = tmp_path / "log"
    real = run(harness, PARTS["core"], aliases=False, log=log)
    aliased = run(harness, PARTS["core"], aliases=True, log=log)
    assert real["core/test_it.py::test_skipped"].result == "skipped"
    assert "the reason" in aliased["core/test_it.py::test_only_real"].why
    found = compare(real, aliased, {"core/*only_real": "private", "core/*passes": "old"})
    name = "core/test_it.py::test_"
    assert found.both == [f"{name}passes", f"{name}unexplained[2]"]
    assert found.explained == {f"{name}only_real": "private"}
    assert [*found.unexplained] == [f"{name}unexplained[1]"]
    assert found.gained == [f"{name}only_aliased"]
    assert found.stale == ["core/*passes"] and found.real == 4
    table = command.table({"core": found})
    assert "   1 only real: private" in table and "UNEXPLAINED" in table and "STALE" in table
    assert run(harness, ("nothing",), aliases=False, log=log) == {}


def test_a_test_that_is_not_collected_counts_as_lost() -> None:
    found = compare({"a::b": Outcome("passed", "")}, {}, {})
    assert "not collected" in found.unexplained["a::b"]


def test_without_a_checkout_it_says_what_it_needs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr("sys.argv", ["tests.determined"])
    monkeypatch.delenv("DETERMINED_SOURCE", raising=False)
    assert command.main() == 0
    assert "Set DETERMINED_SOURCE to a checkout" in capsys.readouterr().out
    with pytest.raises(FileNotFoundError, match="no checkout of Determined's"):
        workplace(tmp_path, tmp_path / "place")


def test_the_list_has_reasons_for_tests_of_its_parts() -> None:
    starts = tuple(path for paths in PARTS.values() for path in paths)
    for pattern, reason in reasons(REASONS).items():
        assert pattern.startswith(starts) and "::" in pattern, pattern
        assert len(reason) > 20, pattern
    assert Comparison().real == 0

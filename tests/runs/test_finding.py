"""Which runs are found, and which of them are wanted."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from det_compat.runs.finding import NoSuchRun, Wanted, condition, find_runs, moment, run_named
from tests.runs.made import make_run, make_search


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_run(tmp_path / "runs/a/001", [0.5], name="a", lr=0.1, net="cnn")
    make_run(tmp_path / "runs/a/002", [0.9], name="a", lr=0.01, net="mlp", state="failed")
    make_run(tmp_path / "runs/b/001", [], name="b", lr=0.1, deep=True, started=2e9)
    make_search(tmp_path / "search_many", [[0.3], [0.8]])
    make_run(tmp_path / ".hidden/001", [0.1])
    make_run(tmp_path / "runs/a/001/checkpoints/1/code/runs/001", [0.1])
    return tmp_path


def paths(root: Path, wanted: Wanted | None = None, *, trials: bool = False) -> list[str]:
    found = find_runs(root, trials=trials)
    return [str(run.path.relative_to(root)) for run in found if wanted is None or wanted(run)]


def test_runs_in_checkpoints_and_trials_of_searches_are_not_listed(root: Path) -> None:
    runs = ["runs/a/001", "runs/a/002", "runs/b/001", "search_many"]
    assert paths(root) == runs
    trials = ["search_many/trials/0000", "search_many/trials/0001"]
    assert paths(root, trials=True) == [*runs, *trials]
    assert [run.path for run in find_runs(root / "runs/a/002")] == [root / "runs/a/002"]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (Wanted(name="a"), ["runs/a/001", "runs/a/002"]),
        (Wanted(name="*/002"), ["runs/a/002"]),
        (Wanted(states=("failed", "killed")), ["runs/a/002"]),
        (Wanted(since=1.5e9), ["runs/b/001"]),
        (Wanted(where=("lr>=0.1", "accuracy>0.4")), ["runs/a/001"]),
        (Wanted(where=("net=mlp",)), ["runs/a/002"]),
        (Wanted(where=("deep=true",)), ["runs/b/001"]),
        (Wanted(where=("net!=mlp",)), ["runs/a/001"]),
        (Wanted(where=("net>3",)), []),
        (Wanted(where=("lr<5e-2",)), ["runs/a/002"]),
    ],
)
def test_what_is_wanted(root: Path, wanted: Wanted, expected: list[str]) -> None:
    assert paths(root, wanted) == expected


@pytest.mark.parametrize("text", ["lr", "lr>", ">3", "lr ~ 3", "lr>>3", ""])
def test_what_is_no_condition_says_so(text: str) -> None:
    with pytest.raises(NoSuchRun, match="is no condition: write NAME>0"):
        condition(text)


def test_moments() -> None:
    assert moment("2h") == pytest.approx(time.time() - 7200, abs=60)
    assert moment("2026-11-02T10:00:00+00:00") == 1793613600
    for text in ("yesterday", "3", "2026-13-01", "-3d"):
        with pytest.raises(NoSuchRun, match="is no time: write 2026-11-02"):
            moment(text)


def test_a_run_is_named_by_the_end_of_its_path(root: Path) -> None:
    for name in ("a/002", "002", str(root / "runs/a/002"), "runs/a/002"):
        assert run_named(name, root).path == root / "runs/a/002"
    assert run_named("0001", root).path == root / "search_many/trials/0001"
    with pytest.raises(NoSuchRun, match=r"001 may be any of .*a/001, .*b/001: give more"):
        run_named("001", root)
    with pytest.raises(NoSuchRun, match="there is no run 02 in"):
        run_named("02", root)

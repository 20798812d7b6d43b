"""A few attacks of each kind; ``make attack`` makes them for half an hour."""

from __future__ import annotations

import ast
import itertools
import sys
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest

from tests.attacks import (
    ATTACKS,
    __main__,
    checkpoints,
    composed,
    drafted,
    migrations,
    ordered,
    runs,
    stepped,
)
from tests.attacks.rewordings import MUTATIONS
from tests.preloaded import executable


def test_each_kind_has_its_turn(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ATTACKS:
        monkeypatch.setitem(ATTACKS, name, lambda draw, folder: None)
    monkeypatch.setitem(ATTACKS, "clusters", lambda draw, folder: 1 / 0)
    # Each look at the clock is a second later than the one before; the first one begins the time.
    clock = SimpleNamespace(monotonic=itertools.count().__next__)
    monkeypatch.setattr(__main__, "time", clock)
    seconds = 2 * len(ATTACKS) + 1
    monkeypatch.setattr(sys, "argv", ["attacks", "--minutes", str(seconds / 60), "--seed", "5"])
    assert __main__.main() == 1
    said = capsys.readouterr().out
    assert "FAILED 5/clusters/1" in said and said.endswith("; 2 failed\n")
    assert all(f"{name}: " in said for name in ATTACKS)


@pytest.mark.parametrize("seed", range(60))
def test_checkpoints(seed: int, tmp_path: Path) -> None:
    checkpoints.attack(Random(seed), tmp_path)


# They are a run with workers that is killed, one of a stream that is killed, and one out of space.
@pytest.mark.parametrize(
    "seed", [57, *(pytest.param(s, marks=pytest.mark.thorough) for s in (0, 22))]
)
def test_runs(seed: int, tmp_path: Path) -> None:
    runs.attack(Random(seed), tmp_path, executable())


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_mutation_changes_a_trial_that_is_migrated(name: str, tmp_path: Path) -> None:
    source, cls = migrations.alone("evaluation:FullDataset")
    module = ast.parse(source)
    trial = next(n for n in module.body if isinstance(n, ast.ClassDef) and n.name == cls)
    draws = (Random(seed) for seed in range(20))
    assert any(MUTATIONS[name](module, trial, draw) for draw in draws)
    text = ast.unparse(ast.fix_missing_locations(module))
    assert text != ast.unparse(ast.parse(source))
    migrations.migrated(text, cls, {}, tmp_path)


def test_trials_that_are_put_together_differ_and_are_migrated(tmp_path: Path) -> None:
    sources = {composed.trial(Random(seed)) for seed in range(10)}
    assert len(sources) == 10
    for number, source in enumerate(sorted(sources)):
        migrations.migrated(source, "Composed", composed.HPARAMS, tmp_path / str(number))


def test_trials_are_drafted_in_many_ways_and_migrated(tmp_path: Path) -> None:
    drafts = [drafted.drafted(Random(seed)) for seed in range(10)]
    assert len({source for source, _ in drafts}) == 10
    for number, (source, config) in enumerate(drafts):
        home = tmp_path / str(number)
        migrations.migrated(source, "Composed", drafted.HPARAMS, home, config)


def test_what_init_does_in_any_order_comes_out_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ordered, "AT_ONCE", 8)
    ordered.attack(Random(1), tmp_path)
    assert ordered.COUNTS["compared"] > ordered.COUNTS["moved"] > 0


def test_what_stands_around_a_step_comes_out_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stepped, "AT_ONCE", 12)
    stepped.attack(Random(2), tmp_path)
    assert stepped.COUNTS["compared"] > stepped.COUNTS["automatic"] > 0

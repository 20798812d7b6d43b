"""A few attacks of each kind; ``make attack`` makes them for half an hour."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests.attacks import checkpoints, runs
from tests.preloaded import executable


@pytest.mark.parametrize("seed", range(60))
def test_checkpoints(seed: int, tmp_path: Path) -> None:
    checkpoints.attack(Random(seed), tmp_path)


# They are a run of a stream that is killed, one with workers that is killed, and one out of space.
@pytest.mark.parametrize("seed", [0, 57, 22])
def test_runs(seed: int, tmp_path: Path) -> None:
    runs.attack(Random(seed), tmp_path, executable())

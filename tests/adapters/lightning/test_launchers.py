"""Strategies that start processes, each in a process of its own, which a timeout ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from pytorch_lightning.strategies import StrategyRegistry

from tests import preloaded
from tests.adapters.lightning import launched
from tests.adapters.trials import same

SCRIPT = str(Path(launched.__file__))
ROOT = Path(__file__).parents[3]
NAMES = [name for name in StrategyRegistry.available_strategies() if "ddp" in name]
IN_FORKS = [name for name in NAMES if "spawn" not in name]


def trained(name: str, devices: int, out: Path, run: Any = preloaded.python) -> Any:
    arguments = [SCRIPT, name, str(devices), str(out)]
    done = run(*arguments, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    return torch.load(out)


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Any]:
    folder = tmp_path_factory.mktemp("launched")
    ways = {1: "auto", 2: "ddp_fork"}
    return {n: trained(name, n, folder / name) for n, name in ways.items()}


@pytest.mark.parametrize("name", IN_FORKS)
def test_processes_that_are_forked(name: str, expected: dict[int, Any], tmp_path: Path) -> None:
    devices = 2 if "fork" in name or "notebook" in name else 1
    found, wanted = trained(name, devices, tmp_path / "out"), expected[devices]
    assert same(found[0], wanted[0])
    assert found[1] == wanted[1]


@pytest.mark.parametrize("found", ["true", "false"])
def test_variants_of_spawn_are_those_of_fork(found: str) -> None:
    spawned = StrategyRegistry[f"ddp_spawn_find_unused_parameters_{found}"]
    forked = StrategyRegistry[f"ddp_fork_find_unused_parameters_{found}"]
    assert spawned["strategy"] is forked["strategy"]
    assert {**spawned["init_params"], "start_method": "fork"} == forked["init_params"]

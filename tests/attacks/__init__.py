"""Attacks on det_compat: disturbed runs and searches, damaged checkpoints and configs,
and trials that are written in other ways, or put together.

``make attack`` makes them for half an hour, with a seed that it prints; ``test_attacks`` makes a
few.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

from tests.attacks import (
    checkpoints,
    clusters,
    composed,
    configs,
    machines,
    migrations,
    ordered,
    outages,
    runs,
    searches,
    stepped,
)

#: Each attack draws what it does, does it in a folder of its own, and raises what went wrong.
ATTACKS: dict[str, Callable[[Random, Path], None]] = {
    "runs": runs.attack,
    "stored runs": runs.attack_stored,
    "machines": machines.attack,
    "outages": outages.attack,
    "checkpoints": checkpoints.attack,
    "configs": configs.attack,
    "searches": searches.attack,
    "full searches": searches.attack_full,
    "clusters": clusters.attack,
    "migrations": migrations.attack,
    "compositions": composed.attack,
    "orders": ordered.attack,
    "steps": stepped.attack,
}

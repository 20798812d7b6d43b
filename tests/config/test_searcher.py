from __future__ import annotations

from typing import Any

import pytest

from det_compat.config import ConfigError, parse_config
from det_compat.config.lengths import Length, Unit
from det_compat.config.searcher import Searcher
from tests.config.samples import parsed


def searcher(name: str, **keys: Any) -> Searcher:
    return parsed(searcher={"name": name, "metric": "m", **keys}).searcher


def test_single() -> None:
    assert searcher("single", max_length={"epochs": 3}) == Searcher(
        "single", "single", "m", max_length=Length(3, Unit.EPOCHS)
    )
    assert searcher("single").max_length is None
    assert searcher("single", max_length=0).max_length is None
    assert searcher("single", max_length=5).max_length == Length(5, Unit.CUSTOM)
    assert searcher("single", max_length=5, unit="epochs").max_length == Length(5, Unit.EPOCHS)


def test_adaptive_asha() -> None:
    found = searcher(
        "adaptive_asha",
        max_trials=16,
        max_time=937,
        time_metric="batches",
        mode="aggressive",
        divisor=3,
        bracket_rungs=[1, 2],
        smaller_is_better=False,
    )
    assert found == Searcher(
        "adaptive_asha",
        "adaptive_asha",
        "m",
        smaller_is_better=False,
        max_length=Length(937, Unit.BATCHES),
        max_trials=16,
        mode="aggressive",
        divisor=3.0,
        bracket_rungs=(1, 2),
    )


def test_a_time_metric_of_the_script() -> None:
    found = searcher("async_halving", max_trials=4, num_rungs=2, max_time=9, time_metric="tokens")
    assert (found.max_length, found.time_metric) == (Length(9, Unit.CUSTOM), "tokens")


def test_older_names_become_their_successors() -> None:
    simple = searcher("adaptive_simple", max_steps=8, max_trials=4)
    assert (simple.name, simple.written_name) == ("adaptive_asha", "adaptive_simple")
    assert simple.max_length == Length(800, Unit.BATCHES)
    assert simple.notes == ("searcher adaptive_simple runs as its successor adaptive_asha",)
    adaptive = searcher("adaptive", target_trial_steps=16, step_budget=500)
    assert (adaptive.name, adaptive.budget) == ("adaptive_asha", Length(50_000, Unit.BATCHES))
    assert adaptive.max_trials is None and "budget" in adaptive.notes[1]
    halving = searcher("sync_halving", num_rungs=3, max_length={"epochs": 4}, budget={"epochs": 9})
    assert (halving.name, halving.num_rungs) == ("async_halving", 3)
    assert searcher("random", max_trials=2).notes == ()


@pytest.mark.parametrize(
    "given",
    [
        {"name": "grid", "max_steps": 5},
        {"name": "random", "max_steps": 5, "max_trials": 3},
        {"name": "adaptive_simple", "max_steps": 8, "max_trials": 4},
        {"name": "adaptive", "target_trial_steps": 16, "step_budget": 500},
    ],
)
def test_older_searches_are_read_again_as_they_were_on_a_cluster(given: dict[str, Any]) -> None:
    config = parsed(searcher={"metric": "m", **given}, batches_per_step=7)
    again = parse_config(config.raw)
    assert again.searcher == config.searcher and again.raw == config.raw


@pytest.mark.parametrize("name", ["pbt", "custom"])
def test_what_cannot_be_run_is_refused_with_the_reason(name: str) -> None:
    config = parsed(searcher={"name": name, "metric": "m"})
    assert config.searcher.refusal and config.refused["searcher.name"] == config.searcher.refusal


def test_warm_starts_from_a_cluster_are_refused() -> None:
    config = parsed(searcher={"name": "single", "metric": "m", "source_trial_id": 5})
    assert "pass the checkpoint's path" in config.refused["searcher.source_trial_id"]


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"name": "random"}, r"searcher\.max_trials: found nothing"),
        ({"name": "adaptive_asha", "max_trials": 3}, "max_length, or max_time with time_metric"),
        ({"name": "adaptive", "max_steps": 3}, r"searcher\.budget: found nothing"),
        ({"max_length": {"batches": 1}, "max_steps": 1}, "max_steps next to max_length"),
        ({"max_length": {"batches": 1}, "max_time": 1, "time_metric": "batches"}, "max_time next"),
        ({"max_time": 1}, r"searcher\.time_metric: found nothing"),
        ({"time_metric": "batches"}, r"searcher\.max_time: found nothing"),
        ({"max_length": {"batches": 0}}, "N above 0"),
        ({"max_length": {"batches": "x"}}, "found a mapping of batches, expected one of"),
        ({"metric": None}, r"searcher\.metric: found nothing"),
        ({"name": None}, r"searcher\.name: found nothing"),
        ({"name": "grid", "divisor": 1}, "a number above 1"),
    ],
)
def test_what_is_wrong(keys: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        parsed(searcher={"name": "single", "metric": "m", **keys})


def test_a_config_without_a_searcher() -> None:
    with pytest.raises(ConfigError, match="searcher: found nothing"):
        parsed(searcher=None)

from __future__ import annotations

from typing import Any

import pytest

from det_compat.config import ConfigError
from det_compat.config.settings import Optimizations, Profiling
from tests.config.samples import parsed


def test_defaults() -> None:
    config = parsed()
    assert config.optimizations == Optimizations()
    assert config.profiling == Profiling()
    assert (config.seed, config.max_restarts, config.slots_per_trial) == (None, 5, 1)
    assert (config.periods.checkpoint_policy, config.labels) == ("best", ())


def test_optimizations_and_profiling() -> None:
    config = parsed(
        optimizations={
            "aggregation_frequency": 4.0,
            "gradient_compression": True,
            "mixed_precision": "O1",
            "tensor_fusion_cycle_time": 5,
        },
        profiling={"enabled": True, "begin_on_batch": 1, "end_after_batch": 2},
        reproducibility={"experiment_seed": 42},
        checkpoint_storage={"save_trial_best": 2.0},
    )
    raw = config.raw["checkpoint_storage"], config.raw["optimizations"]
    assert str((raw[0]["save_trial_best"], raw[1]["aggregation_frequency"])) == "(2, 4)"
    assert config.optimizations == Optimizations(4, True, "O1")
    assert config.profiling == Profiling(True, 1, 2)
    assert config.seed == 42
    assert list(config.ignored) == ["optimizations.tensor_fusion_cycle_time"]


@pytest.mark.parametrize(
    ("variables", "cpu", "cuda"),
    [
        (["A=1", "B=x=y", "C"], {"A": "1", "B": "x=y", "C": ""}, {"A": "1", "B": "x=y", "C": ""}),
        ({"cpu": ["A=1"], "gpu": ["A=2"], "rocm": None}, {"A": "1"}, {"A": "2"}),
        ({"A": 1, "B": True}, {"A": "1", "B": "true"}, {"A": "1", "B": "true"}),
        ({}, {}, {}),
        (None, {}, {}),
    ],
)
def test_environment_variables(variables: Any, cpu: Any, cuda: Any) -> None:
    environment = parsed(environment={"environment_variables": variables}).environment
    assert environment.for_device("cpu") == cpu
    assert environment.for_device("cuda") == cuda
    assert "A" not in repr(environment)


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"environment": {"environment_variables": ["=1"]}}, "expected NAME=VALUE"),
        ({"environment": {"environment_variables": {"cpu": [1]}}}, "expected NAME=VALUE"),
        ({"environment": {"environment_variables": {"x": [1]}}}, "a list of NAME=VALUE for cpu"),
        ({"environment": {"environment_variables": 5}}, "expected a list, each text"),
        ({"profiling": {"begin_on_batch": 5, "end_after_batch": 2}}, "at least begin_on_batch, 5"),
        ({"resources": {"slots_per_trial": 4, "max_slots": 2}}, "at least slots_per_trial, 4"),
        ({"reproducibility": {"experiment_seed": -1}}, "from 0 to"),
    ],
)
def test_what_is_wrong(keys: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        parsed(**keys)

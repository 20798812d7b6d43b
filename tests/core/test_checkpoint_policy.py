from __future__ import annotations

import json
import math

import pytest

from det_compat.core.checkpoint_policy import CheckpointPolicy

METRICS = [0.5, 0.5, 0.4, math.nan, 0.6, math.inf, -math.inf]


@pytest.mark.parametrize(
    "metrics, smaller_is_better, due",
    [
        (METRICS, True, [1, 0, 1, 0, 0, 0, 1]),
        (METRICS, False, [1, 0, 0, 0, 1, 1, 0]),
        ([math.nan, math.nan, 2.0, 1.0], True, [1, 0, 1, 1]),
        ([math.nan, math.nan, 1.0, 2.0], False, [1, 0, 1, 1]),
    ],
)
def test_best(metrics: list[float], smaller_is_better: bool, due: list[int]) -> None:
    policy = CheckpointPolicy("best", smaller_is_better)
    found = []
    for metric in metrics:
        found.append(int(policy.is_due(metric)))
        state = json.loads(json.dumps(policy.state_dict(), allow_nan=False))
        policy = CheckpointPolicy("best", smaller_is_better)
        policy.load_state_dict(state)
    assert found == due


def test_all_and_none() -> None:
    for metric in (None, 0.5, 0.5):
        assert CheckpointPolicy("all").is_due(metric)
        assert not CheckpointPolicy("none").is_due(metric)


def test_best_of_no_metric() -> None:
    with pytest.raises(ValueError, match="goes by the searcher metric"):
        CheckpointPolicy("best").is_due(None)


def test_a_policy_that_is_none() -> None:
    with pytest.raises(ValueError, match="best, all, none, got 'latest'"):
        CheckpointPolicy("latest")

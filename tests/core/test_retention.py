from __future__ import annotations

import math
from typing import Any

import pytest

from det_compat.core.retention import RetentionPolicy, SavedCheckpoint, to_delete

# checkpoint -> (trial, metric), of the example in Determined's documentation
EXAMPLE = {
    1: (1, None),
    2: (1, None),
    3: (1, 0.6),
    4: (1, 0.5),
    5: (1, 0.4),
    6: (2, None),
    7: (2, 0.2),
    8: (2, 0.3),
    9: (2, None),
    10: (2, None),
}


def kept(checkpoints: list[SavedCheckpoint], *counts: int, **kwargs: Any) -> set[str]:
    deleted = to_delete(checkpoints, RetentionPolicy(*counts, **kwargs))
    assert len(deleted) == len(set(deleted))
    return {one.uuid for one in checkpoints} - set(deleted)


@pytest.mark.parametrize(
    "counts, expected",
    [
        ((0, 0, 0), set()),
        ((2, 0, 0), {8, 7}),
        ((5, 0, 0), {8, 7, 5, 4, 3}),
        ((99, 0, 0), {8, 7, 5, 4, 3}),
        ((0, 1, 0), {7, 5}),
        ((0, 3, 0), {8, 7, 5, 4, 3}),
        ((0, 0, 1), {10, 5}),
        ((0, 0, 3), {10, 9, 8, 5, 4, 3}),
        ((2, 1, 0), {8, 7, 5}),
        ((2, 0, 1), {10, 8, 7, 5}),
        ((0, 1, 1), {10, 7, 5}),
        ((2, 1, 1), {10, 8, 7, 5}),
    ],
)
@pytest.mark.parametrize("sign", [1, -1])
def test_the_example_of_the_documentation(
    counts: tuple[int, ...], expected: set[int], sign: int
) -> None:
    checkpoints = [
        SavedCheckpoint(str(name), name, None if metric is None else sign * metric, trial)
        for name, (trial, metric) in EXAMPLE.items()
    ]
    assert kept(checkpoints, *counts, smaller_is_better=sign == 1) == set(map(str, expected))


def of_one_trial(*metrics: float | None) -> list[SavedCheckpoint]:
    return [SavedCheckpoint(str(i), i, metric) for i, metric in enumerate(metrics)]


@pytest.mark.parametrize("smaller_is_better", [True, False])
def test_nan_is_worst_and_no_metric_is_none(smaller_is_better: bool) -> None:
    worst = math.inf if smaller_is_better else -math.inf
    checkpoints = of_one_trial(None, math.nan, worst, 1.0, None)
    for count, expected in [(1, "3"), (2, "23"), (3, "123"), (4, "123")]:
        assert kept(checkpoints, 0, count, 0, smaller_is_better=smaller_is_better) == set(expected)


def test_of_equal_metrics_the_earlier_is_better() -> None:
    assert kept(of_one_trial(0.5, 0.5, 0.4), 0, 2, 0) == {"0", "2"}
    assert kept(of_one_trial(math.nan, math.nan), 0, 1, 0) == {"0"}


def test_two_checkpoints_after_as_many_batches_share_their_rank() -> None:
    checkpoints = [SavedCheckpoint(name, 5, 0.1) for name in "ab"]
    assert kept([SavedCheckpoint("0", 4, 0.2), *checkpoints], 0, 1, 1) == {"a", "b"}


def test_nothing_is_kept_of_nothing() -> None:
    assert to_delete([], RetentionPolicy()) == []


def test_the_policy_of_a_config() -> None:
    assert RetentionPolicy() == RetentionPolicy(0, 1, 1, True)
    for config in ({}, {"checkpoint_storage": None, "searcher": None}, {"checkpoint_storage": {}}):
        assert RetentionPolicy.from_config(config) == RetentionPolicy()
    config = {
        "checkpoint_storage": {"save_trial_best": 3, "save_trial_latest": None},
        "searcher": {"smaller_is_better": False},
    }
    assert RetentionPolicy.from_config(config) == RetentionPolicy(0, 3, 1, False)


@pytest.mark.parametrize("count", [-1, 1.0, "1", True])
def test_counts_are_integers(count: Any) -> None:
    with pytest.raises(ValueError, match=r"save_trial_best must be an integer"):
        RetentionPolicy(save_trial_best=count)
    with pytest.raises(ValueError, match="smaller_is_better must be a bool"):
        RetentionPolicy.from_config({"searcher": {"smaller_is_better": "no"}})

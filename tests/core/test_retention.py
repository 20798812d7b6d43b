from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

from det_compat.core import CheckpointStore
from det_compat.core.retention import (
    CheckpointPolicy,
    RetainedCheckpoints,
    RetentionPolicy,
    SavedCheckpoint,
    to_delete,
)

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


class Disk:
    """Notes what is deleted."""

    def __init__(self) -> None:
        self.there: list[str] = []
        self.fails = False

    def delete(self, name: str) -> None:
        if self.fails:
            raise PermissionError(13, "not allowed", name)
        if name not in self.there:
            raise FileNotFoundError(name)
        self.there.remove(name)

    def save(self, checkpoints: RetainedCheckpoints, steps: int) -> None:
        self.there.append(str(steps))
        checkpoints.saved(str(steps), steps)


def test_best_and_latest_are_kept() -> None:
    disk = Disk()
    checkpoints = RetainedCheckpoints(disk.delete, RetentionPolicy())
    for steps, metric in [(1, 0.5), (2, 0.3), (3, 0.4), (4, 0.3)]:
        checkpoints.validated(steps, metric)
        disk.save(checkpoints, steps)
        best = checkpoints.best()
        assert best is not None and best.uuid == ("1" if steps == 1 else "2")
    assert disk.there == checkpoints.names == ["2", "4"]


def test_a_validation_may_come_after_its_checkpoint() -> None:
    disk = Disk()
    checkpoints = RetainedCheckpoints(disk.delete, RetentionPolicy(0, 1, 0))
    for steps, metric in [(1, 0.5), (2, 0.3), (3, 0.4)]:
        disk.save(checkpoints, steps)
        assert disk.there[-1] == str(steps)
        checkpoints.validated(steps, metric)
    assert disk.there == ["2", "3"]
    checkpoints.finish()
    assert disk.there == ["2"]


@pytest.mark.parametrize("metric", [None, 0.5])
def test_the_only_one_is_kept(metric: float | None) -> None:
    disk = Disk()
    checkpoints = RetainedCheckpoints(disk.delete, RetentionPolicy(0, 0, 0))
    checkpoints.finish()
    for steps in (1, 2):
        disk.save(checkpoints, steps)
        checkpoints.validated(steps, metric)
    checkpoints.finish()
    assert disk.there == ["2"]


def test_without_a_metric_nothing_is_best() -> None:
    checkpoints = RetainedCheckpoints(Disk().delete, RetentionPolicy())
    checkpoints.saved("1", 1)
    assert checkpoints.best() is None


@pytest.mark.parametrize("seed", range(20))
def test_deleting_early_keeps_what_deleting_at_the_end_keeps(seed: int) -> None:
    rng = random.Random(seed)
    policy = RetentionPolicy(*(rng.randint(0, 3) for _ in range(3)), rng.random() < 0.5)
    disk, everything = Disk(), []
    checkpoints = RetainedCheckpoints(disk.delete, policy)
    for steps in range(30):
        metric = rng.choice([None, math.nan, math.inf, 1.0, 2.0, 3.0, 4.0])
        validates_first = rng.random() < 0.5
        if validates_first:
            checkpoints.validated(steps, metric)
        if rng.random() < 0.8:
            everything.append(SavedCheckpoint(str(steps), steps, metric))
            disk.save(checkpoints, steps)
        if not validates_first:
            checkpoints.validated(steps, metric)
        if rng.random() < 0.2:
            state = json.loads(json.dumps(checkpoints.state_dict(), allow_nan=False))
            checkpoints = RetainedCheckpoints(disk.delete, policy)
            checkpoints.load_state_dict(state)
    checkpoints.finish()
    deleted = to_delete(everything, policy)
    kept = [one.uuid for one in everything if one.uuid not in deleted]
    assert disk.there == (kept or [everything[-1].uuid])


def test_a_deletion_that_fails_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    disk = Disk()
    checkpoints = RetainedCheckpoints(disk.delete, RetentionPolicy(0, 0, 1))
    disk.fails = True
    for steps in (1, 2):
        disk.save(checkpoints, steps)
    assert "could not delete checkpoint 1" in caplog.text
    disk.fails = False
    disk.save(checkpoints, 3)
    assert disk.there == checkpoints.names == ["3"]


def run(context: CheckpointStore, retained: RetainedCheckpoints, *all_steps: int) -> str:
    for steps in all_steps:
        metadata = {"steps_completed": steps, "retention": retained.state_dict()}
        with context.store_path(metadata) as (_, name):
            pass
        retained.saved(name, steps)
    return name


def test_a_run_that_goes_on_deletes_only_what_it_wrote_before(tmp_path: Path) -> None:
    context = CheckpointStore(tmp_path)
    policy = RetentionPolicy(0, 0, 2)
    run(context, RetainedCheckpoints(context.delete, policy), 5)  # another run
    checkpoint = run(context, RetainedCheckpoints(context.delete, policy), 1, 2, 3)

    def resumed() -> RetainedCheckpoints:
        metadata = json.loads((context.find(checkpoint) / "metadata.json").read_text())
        retained = RetainedCheckpoints(CheckpointStore(tmp_path).delete, policy)
        retained.load_state_dict(metadata["retention"])
        retained.saved(checkpoint, 3)
        return retained

    run(context, resumed(), 4)
    assert [one.steps_completed for one in context.list()] == [3, 4, 5]
    run(context, resumed(), 4)  # the first 4 was written after what this one goes on from
    assert [one.steps_completed for one in context.list()] == [3, 4, 4, 5]

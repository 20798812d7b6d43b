from __future__ import annotations

import json
import math
import random
from pathlib import Path

import pytest

from det_compat.core import CheckpointContext
from det_compat.core.retained_checkpoints import RetainedCheckpoints
from det_compat.core.retention import RetentionPolicy, SavedCheckpoint, to_delete


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


def run(context: CheckpointContext, retained: RetainedCheckpoints, *all_steps: int) -> str:
    for steps in all_steps:
        metadata = {"steps_completed": steps, "retention": retained.state_dict()}
        with context.store_path(metadata) as (_, name):
            pass
        retained.saved(name, steps)
    return name


def test_a_run_that_goes_on_deletes_only_what_it_wrote_before(tmp_path: Path) -> None:
    context = CheckpointContext(tmp_path)
    policy = RetentionPolicy(0, 0, 2)
    run(context, RetainedCheckpoints(context.delete, policy), 5)  # another run
    checkpoint = run(context, RetainedCheckpoints(context.delete, policy), 1, 2, 3)

    def resumed() -> RetainedCheckpoints:
        metadata = json.loads((context.find(checkpoint) / "metadata.json").read_text())
        retained = RetainedCheckpoints(CheckpointContext(tmp_path).delete, policy)
        retained.load_state_dict(metadata["retention"])
        retained.saved(checkpoint, 3)
        return retained

    run(context, resumed(), 4)
    assert [one.steps_completed for one in context.list()] == [3, 4, 5]
    run(context, resumed(), 4)  # the first 4 was written after what this one goes on from
    assert [one.steps_completed for one in context.list()] == [3, 4, 4, 5]

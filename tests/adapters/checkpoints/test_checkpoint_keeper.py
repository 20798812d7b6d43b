from __future__ import annotations

from typing import Any

import pytest

from det_compat import core, pytorch
from det_compat.adapters.checkpoints.checkpoint_keeper import CheckpointKeeper
from det_compat.core.retention import CheckpointPolicy, RetainedCheckpoints, RetentionPolicy
from det_compat.pytorch import Batch
from tests.adapters.trials import Linear


def keeper(
    deleted: list[str], *, owns_start: bool = False, policy: str = "all"
) -> CheckpointKeeper:
    retained = RetainedCheckpoints(deleted.append, RetentionPolicy())
    return CheckpointKeeper(CheckpointPolicy(policy), "loss", retained, owns_start=owns_start)


def test_best_and_latest_are_kept() -> None:
    deleted: list[str] = []
    kept = keeper(deleted)
    for batches, loss in [(1, 3.0), (2, 1.0), (3, 2.0)]:
        assert kept.validated(batches, {"loss": loss, "other": "text"})
        kept.saved(str(batches), batches)
    kept.finish()
    assert deleted == ["1"]
    assert (kept.best(), kept.latest) == ("2", "3")


def test_the_policy_best_asks_for_better_ones_only() -> None:
    kept = keeper([], policy="best")
    assert [kept.validated(n, {"loss": loss}) for n, loss in enumerate([2.0, 3.0, 1.0])] == [
        True,
        False,
        True,
    ]


def test_a_metric_that_is_missing_or_no_number_is_none() -> None:
    kept = keeper([], policy="best")
    for metrics in ({}, {"loss": "text"}, {"loss": None}):
        with pytest.raises(ValueError, match="did not return as a number"):
            kept.validated(1, metrics)
    with pytest.raises(ValueError, match=r"is 'loss', and .* are los, other.*did you mean los\?"):
        kept.validated(1, {"los": 1.0, "other": 2.0, "batches": 1})


@pytest.mark.parametrize("owns_start", [True, False])
def test_checkpoints_before_the_start_are_its_own_only_if_told(owns_start: bool) -> None:
    first = keeper([])
    first.validated(1, {"loss": 1.0})
    first.saved("a", 1)
    first.validated(2, {"loss": 3.0})
    state = first.state_dict()

    deleted: list[str] = []
    second = keeper(deleted, owns_start=owns_start)
    second.resume({"checkpoints": state}, "somewhere/b", 2)
    second.validated(3, {"loss": 0.5})
    second.saved("c", 3)
    second.finish()
    assert sorted(deleted) == (["a", "b"] if owns_start else [])
    assert second.latest == "c"


class Loses(Linear):
    """A loss that gets worse, so that the first checkpoint is the best."""

    def evaluate_batch(self, batch: Any) -> dict[str, Any]:
        return {"worse": float(self.context.current_train_batch())}


def run(exp_conf: Any) -> list[int | None]:
    with pytorch.init(hparams={}, exp_conf=exp_conf, enable_tensorboard_logging=False) as context:
        pytorch.Trainer(Loses(context), context).fit(
            max_length=Batch(4), validation_period=Batch(1)
        )
    return [checkpoint.steps_completed for checkpoint in core.CheckpointStore().list()]


SEARCHER = {"searcher": {"metric": "worse"}}


def test_a_script_keeps_what_its_config_says() -> None:
    assert run({**SEARCHER, "checkpoint_storage": {"save_trial_latest": 2}}) == [1, 3, 4]


@pytest.mark.parametrize("conf", [None, SEARCHER, {"checkpoint_storage": {"type": "shared_fs"}}])
def test_a_script_keeps_all_without_storage_and_metric_in_its_config(conf: Any) -> None:
    assert run(conf) == [1, 2, 3, 4]

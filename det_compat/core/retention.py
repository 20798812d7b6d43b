"""Which checkpoints are kept: Determined's policy for the garbage collection of checkpoints."""

from __future__ import annotations

import bisect
import dataclasses
import math
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

_COUNTS = ("save_experiment_best", "save_trial_best", "save_trial_latest")


@dataclasses.dataclass(frozen=True)
class RetentionPolicy:
    """How many checkpoints are kept, with the defaults of Determined 0.38.1.

    Args:
        save_experiment_best: of those with the best metric of all trials.
        save_trial_best: of those with the best metric of each trial.
        save_trial_latest: of the latest of each trial.
        smaller_is_better: whether the best metric is the smallest one.

    Raises:
        ValueError: a number is negative, or no integer.
    """

    save_experiment_best: int = 0
    save_trial_best: int = 1
    save_trial_latest: int = 1
    smaller_is_better: bool = True

    def __post_init__(self) -> None:
        for name in _COUNTS:
            count = getattr(self, name)
            if isinstance(count, bool) or not isinstance(count, int) or count < 0:
                raise ValueError(f"{name} must be an integer of 0 or more, got {count!r}")
        if not isinstance(self.smaller_is_better, bool):
            raise ValueError(f"smaller_is_better must be a bool, got {self.smaller_is_better!r}")

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> RetentionPolicy:
        """The policy in ``checkpoint_storage`` and ``searcher`` of an experiment config.

        Raises:
            ValueError: a number is negative, or no integer.
        """
        storage, searcher = config.get("checkpoint_storage"), config.get("searcher")
        given = {name: (storage or {}).get(name) for name in _COUNTS}
        given["smaller_is_better"] = (searcher or {}).get("smaller_is_better")
        return cls(**{name: value for name, value in given.items() if value is not None})


@dataclasses.dataclass(frozen=True)
class SavedCheckpoint:
    """A checkpoint as the policy sees it.

    Args:
        uuid: its name.
        steps_completed: batches trained.
        metric: the searcher metric of the validation after as many batches; None without one.
        trial: the trial that it is of.
    """

    uuid: str
    steps_completed: int
    metric: float | None = None
    trial: Hashable = None


def to_delete(checkpoints: Iterable[SavedCheckpoint], policy: RetentionPolicy) -> list[str]:
    """The UUIDs of the checkpoints that the policy does not keep.

    As the master of Determined 0.38.1 does when an experiment ends: a checkpoint is kept if it is
    among the best of the experiment, among the best of its trial or among the latest of its trial.

    - Only checkpoints with a metric can be among the best. NaN counts as a metric, and is worse
      than every number.
    - Of equal metrics, that of the earlier validation is the better one.
    - Checkpoints of a trial after as many batches have the same rank. All of them are kept if one
      is, so there may be more than the policy says.

    Args:
        checkpoints: those of the experiment, in the order in which they were saved.
    """
    saved = list(checkpoints)
    keys = _ranking_keys(saved, policy)
    of_experiment = sorted(keys.values())
    of_trial = {trial: sorted(_of(trial, saved, keys)) for trial in {one.trial for one in saved}}
    latest = {
        trial: sorted(-one.steps_completed for one in saved if one.trial == trial)
        for trial in of_trial
    }
    return [
        one.uuid
        for one in saved
        if not (
            _is_among(policy.save_experiment_best, of_experiment, keys.get(one.uuid))
            or _is_among(policy.save_trial_best, of_trial[one.trial], keys.get(one.uuid))
            or _is_among(policy.save_trial_latest, latest[one.trial], -one.steps_completed)
        )
    ]


def _ranking_keys(
    saved: list[SavedCheckpoint], policy: RetentionPolicy
) -> dict[str, tuple[bool, float, int]]:
    """What the checkpoints that have a metric are ranked by, best first."""
    sign = 1 if policy.smaller_is_better else -1
    validations: dict[tuple[Hashable, int], int] = {}
    keys = {}
    for one in saved:
        if one.metric is not None:
            validation = validations.setdefault((one.trial, one.steps_completed), len(validations))
            is_nan = math.isnan(one.metric)
            keys[one.uuid] = (is_nan, 0.0 if is_nan else sign * one.metric, validation)
    return keys


def _of(trial: Hashable, saved: list[SavedCheckpoint], keys: Mapping[str, Any]) -> list[Any]:
    return [keys[one.uuid] for one in saved if one.trial == trial and one.uuid in keys]


def _is_among(count: int, ordered: list[Any], key: Any) -> bool:
    """Whether fewer than ``count`` come before ``key``."""
    return key is not None and bisect.bisect_left(ordered, key) < count

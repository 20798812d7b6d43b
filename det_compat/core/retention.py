"""Which checkpoints a run writes, and which of them it keeps.

``CheckpointPolicy`` says after which validations one is written, ``RetentionPolicy`` how many are
kept, and ``RetainedCheckpoints`` deletes the others while the run goes on.
"""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

logger = logging.getLogger("determined.core")

CHECKPOINT_POLICIES = ("best", "all", "none")

_COUNTS = ("save_experiment_best", "save_trial_best", "save_trial_latest")


class CheckpointPolicy:
    """``checkpoint_policy`` of an experiment config, as in Determined 0.38.1.

    - ``"best"``: after each validation whose searcher metric is better than all before, the first
      one included. An equal metric is not better.
    - ``"all"``: after each validation.
    - ``"none"``: after none; other settings may ask for checkpoints.

    NaN is worse than every number. (In Determined, where larger metrics were better, nothing was
    better than NaN.)

    Args:
        policy: one of these.
        smaller_is_better: whether the best metric is the smallest one.

    Raises:
        ValueError: there is no such policy.
    """

    def __init__(self, policy: str = "best", smaller_is_better: bool = True) -> None:
        if policy not in CHECKPOINT_POLICIES:
            raise ValueError(
                f"checkpoint_policy must be one of {', '.join(CHECKPOINT_POLICIES)}, got {policy!r}"
            )
        self.policy = policy
        self.smaller_is_better = smaller_is_better
        self.best: float | None = None

    def is_due(self, metric: float | None) -> bool:
        """Take note of a validation; whether a checkpoint is due after it.

        Args:
            metric: the searcher metric; None if the validation did not return it.

        Raises:
            ValueError: the policy is "best", and there is no metric to go by.
        """
        if metric is None and self.policy == "best":
            raise ValueError(
                "checkpoint_policy 'best' goes by the searcher metric, which this validation did "
                "not return as a number; return it from evaluate_batch, or use 'all'"
            )
        is_best = metric is not None and (
            self.best is None
            or _rank(metric, self.smaller_is_better) < _rank(self.best, self.smaller_is_better)
        )
        if is_best:
            self.best = metric
        return is_best if self.policy == "best" else self.policy == "all"

    def state_dict(self) -> dict[str, Any]:
        """The best metric so far, in types that JSON has."""
        return {"best": _to_json(self.best)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Put back what ``state_dict`` returned."""
        self.best = _from_json(state["best"])


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
    kept = _first(policy.save_experiment_best, keys)
    for trial in {one.trial for one in saved}:
        latest = {one.uuid: -one.steps_completed for one in saved if one.trial == trial}
        best = {uuid: key for uuid, key in keys.items() if uuid in latest}
        kept |= _first(policy.save_trial_best, best) | _first(policy.save_trial_latest, latest)
    return [one.uuid for one in saved if one.uuid not in kept]


def _ranking_keys(
    saved: list[SavedCheckpoint], policy: RetentionPolicy
) -> dict[str, tuple[bool, float, int]]:
    """What the checkpoints that have a metric are ranked by, best first."""
    validations: dict[tuple[Hashable, int], int] = {}
    keys = {}
    for one in saved:
        if one.metric is not None:
            validation = validations.setdefault((one.trial, one.steps_completed), len(validations))
            keys[one.uuid] = (*_rank(one.metric, policy.smaller_is_better), validation)
    return keys


def _rank(metric: float, smaller_is_better: bool) -> tuple[bool, float]:
    """What metrics are ordered by, best first; NaN is worse than every number."""
    if math.isnan(metric):
        return (True, 0.0)
    return (False, metric if smaller_is_better else -metric)


def _first(count: int, keys: Mapping[str, Any]) -> set[str]:
    """The UUIDs with the ``count`` first keys, and those that share a key with one of them."""
    first = sorted(keys.values())[:count]
    return {uuid for uuid, key in keys.items() if key in first}


class RetainedCheckpoints:
    """Applies Determined's policy to the checkpoints that one run writes, while it runs.

    Determined deletes when the experiment ends. This one deletes as soon as a newer checkpoint is
    complete, with the same outcome: a checkpoint that is not among the best or the latest will not
    be again. Until ``finish``, the latest is kept whatever the policy says, so that the run can go
    on from it. The run's trial stands for the experiment.

    What it knows is part of a checkpoint, as the rest of a run's state is: write ``state_dict()``
    into the ``metadata.json`` of each checkpoint that is saved (it is of plain JSON types), and a
    run that goes on from that checkpoint knows what the run knew that wrote it. Nothing else is
    ever deleted: neither checkpoints of other runs, nor those that were written after the one that
    the run goes on from.

    Args:
        delete: deletes a checkpoint by the name that ``saved`` was given, such as
            ``CheckpointStore.delete``; raises OSError if it cannot, FileNotFoundError if it is
            gone already.
        policy: how many are kept.
    """

    def __init__(self, delete: Callable[[str], None], policy: RetentionPolicy) -> None:
        self._delete = delete
        self._policy = policy
        self._saved: list[SavedCheckpoint] = []
        self._validated: tuple[int, float | None] | None = None

    def saved(self, name: str, steps_completed: int) -> None:
        """Take note of a complete checkpoint, and delete what is no longer needed.

        Args:
            name: its UUID, or its path if it is a file.
            steps_completed: batches trained.
        """
        metric = None
        if self._validated is not None and self._validated[0] == steps_completed:
            metric = self._validated[1]
        self._saved = [one for one in self._saved if one.uuid != name]
        self._saved.append(SavedCheckpoint(name, steps_completed, metric))
        self._delete_all(self._not_needed())

    def validated(self, steps_completed: int, metric: float | None) -> None:
        """Take note of a validation: checkpoints after as many batches have this metric.

        Args:
            steps_completed: batches trained.
            metric: the searcher metric; None if the validation did not return it.
        """
        self._validated = (steps_completed, None if metric is None else float(metric))
        self._saved = [
            dataclasses.replace(one, metric=self._validated[1])
            if one.steps_completed == steps_completed
            else one
            for one in self._saved
        ]
        self._delete_all(self._not_needed())

    def finish(self) -> None:
        """Apply the policy to the letter, but for the latest checkpoint if it would keep none."""
        unwanted = to_delete(self._saved, self._policy)
        self._delete_all(self._not_needed() if len(unwanted) == len(self._saved) else unwanted)

    @property
    def names(self) -> list[str]:
        """The checkpoints that are kept, in the order in which they were saved."""
        return [one.uuid for one in self._saved]

    def best(self) -> SavedCheckpoint | None:
        """The kept checkpoint with the best metric, None if none has a metric."""
        best_only = RetentionPolicy(0, 1, 0, self._policy.smaller_is_better)
        others = set(to_delete(self._saved, best_only))
        return next((one for one in self._saved if one.uuid not in others), None)

    def state_dict(self) -> dict[str, Any]:
        """What is known, in types that JSON has. NaN and infinities are strings."""
        return {
            "checkpoints": [
                {
                    "uuid": one.uuid,
                    "steps_completed": one.steps_completed,
                    "metric": _to_json(one.metric),
                }
                for one in self._saved
            ],
            "validated": self._validated and [self._validated[0], _to_json(self._validated[1])],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what ``state_dict`` returned when the run wrote a checkpoint.

        Call ``saved`` for that checkpoint next, which its own state cannot know of.
        """
        self._saved = [
            SavedCheckpoint(one["uuid"], one["steps_completed"], _from_json(one["metric"]))
            for one in state["checkpoints"]
        ]
        validated = state["validated"]
        self._validated = validated and (validated[0], _from_json(validated[1]))

    def _not_needed(self) -> list[str]:
        latest = max((one.steps_completed for one in self._saved), default=0)
        last = [one.uuid for one in self._saved if one.steps_completed == latest]
        return [name for name in to_delete(self._saved, self._policy) if name not in last]

    def _delete_all(self, names: list[str]) -> None:
        for name in names:
            try:
                self._delete(name)
            except FileNotFoundError:
                logger.debug(f"checkpoint {name} is gone already")
            except OSError as error:
                # A run of days does not end over this; it is tried again next time.
                logger.warning(f"could not delete checkpoint {name}: {error}")
                continue
            self._saved = [one for one in self._saved if one.uuid != name]


def _to_json(metric: float | None) -> float | str | None:
    """A metric in a type that every reader of JSON takes."""
    is_finite = metric is None or abs(metric) < float("inf")
    return metric if is_finite else str(metric)


def _from_json(metric: float | str | None) -> float | None:
    """What ``_to_json`` was given."""
    return None if metric is None else float(metric)

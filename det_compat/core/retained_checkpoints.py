"""The checkpoints of a run, of which the policy deletes those that are no longer needed."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Mapping
from typing import Any

from det_compat.core.retention import RetentionPolicy, SavedCheckpoint, to_delete

logger = logging.getLogger("determined.core")


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
            ``CheckpointContext.delete``; raises OSError if it cannot, FileNotFoundError if it is
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
                    "metric": to_json(one.metric),
                }
                for one in self._saved
            ],
            "validated": self._validated and [self._validated[0], to_json(self._validated[1])],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what ``state_dict`` returned when the run wrote a checkpoint.

        Call ``saved`` for that checkpoint next, which its own state cannot know of.
        """
        self._saved = [
            SavedCheckpoint(one["uuid"], one["steps_completed"], from_json(one["metric"]))
            for one in state["checkpoints"]
        ]
        validated = state["validated"]
        self._validated = validated and (validated[0], from_json(validated[1]))

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


def to_json(metric: float | None) -> float | str | None:
    """A metric in a type that every reader of JSON takes."""
    is_finite = metric is None or abs(metric) < float("inf")
    return metric if is_finite else str(metric)


def from_json(metric: float | str | None) -> float | None:
    """What ``to_json`` was given."""
    return None if metric is None else float(metric)

"""After which validations a checkpoint is due."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from det_compat.core.retained_checkpoints import from_json, to_json

CHECKPOINT_POLICIES = ("best", "all", "none")


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
        is_best = metric is not None and self._is_best(metric)
        if is_best:
            self.best = metric
        return is_best if self.policy == "best" else self.policy == "all"

    def _is_best(self, metric: float) -> bool:
        if self.best is None:
            return True
        if math.isnan(self.best) or math.isnan(metric):
            return not math.isnan(metric)
        return metric < self.best if self.smaller_is_better else metric > self.best

    def state_dict(self) -> dict[str, Any]:
        """The best metric so far, in types that JSON has."""
        return {"best": to_json(self.best)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Put back what ``state_dict`` returned."""
        self.best = from_json(state["best"])

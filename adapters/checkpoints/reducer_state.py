"""What the reducers of a trial have collected, in plain types."""

from __future__ import annotations

import logging
from typing import Any

from torch import nn

from det_compat.pytorch.context.steering import Steering
from det_compat.shared.plain_types import NotPlainError, from_plain, to_plain

logger = logging.getLogger("det_compat")


def reducer_states(steering: Steering) -> list[dict[str, Any]]:
    """The attributes of every reducer that are data, in the order of ``wrap_reducer``."""
    return [_state(reducer) for reducer in steering.reducers]


def _state(reducer: Any) -> dict[str, Any]:
    found = {}
    for name, value in vars(reducer).items():
        try:
            found[name] = _attribute(value, name)
        except NotPlainError as error:
            _note_left_out(reducer, error)
    return found


def _attribute(value: Any, name: str) -> Any:
    if isinstance(states := getattr(value, "metric_state", None), dict):
        # of torchmetrics
        return {"metric_state": to_plain(states, name), "update_count": value.update_count}
    return to_plain(value, name)


def _note_left_out(reducer: Any, error: NotPlainError) -> None:
    # What a reducer was built with (a model, a function, the context) is built again on resume.
    logger.debug(f"reducer {type(reducer).__name__}: {error} is no data that a checkpoint keeps")


def restore_reducers(steering: Steering, states: list[dict[str, Any]]) -> None:
    """Put back what ``reducer_states`` returned."""
    for reducer, state in zip(steering.reducers, states, strict=False):
        for name, value in state.items():
            _restore_attribute(reducer, name, value)


def _restore_attribute(reducer: Any, name: str, value: Any) -> None:
    current = getattr(reducer, name, None)
    if isinstance(current, nn.Module) and isinstance(value, dict) and "metric_state" in value:
        for state, found in from_plain(value["metric_state"]).items():
            setattr(current, state, found)
        # torchmetrics has no public way to set it (1.9).
        vars(current)["_update_count"] = value["update_count"]
        return
    setattr(reducer, name, from_plain(value))

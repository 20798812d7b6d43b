"""The weights of models, by whatever they were saved."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

_DDP = "module."
_OF_MODEL = re.compile(r"models\.(\d+)\.(.+)", re.DOTALL)


def without_ddp_prefix(state: Mapping[str, Any]) -> dict[str, Any]:
    """A model's state under the names of the model itself.

    DistributedDataParallel puts ``module.`` before all of them.
    """
    if state and all(str(name).startswith(_DDP) for name in state):
        return {name.removeprefix(_DDP): value for name, value in state.items()}
    return dict(state)


def under_names(wanted: Collection[str], state: Mapping[str, Any]) -> Mapping[str, Any]:
    """``state`` under the names ``wanted``, if ``module.`` is all that they differ by."""
    distributed = {_DDP + name: value for name, value in state.items()}
    alone = {name.removeprefix(_DDP): value for name, value in state.items()}
    for candidate in (state, distributed, alone):
        if candidate.keys() == set(wanted):
            return candidate
    return state


def by_model(state_dict: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    """The models' states in a Lightning ``state_dict``, by the number of the model in the trial.

    One whose names are not those of det_compat's modules is a single model.
    """
    models: dict[int, dict[str, Any]] = {}
    for name, value in state_dict.items():
        found = _OF_MODEL.fullmatch(str(name))
        if found is None:
            return {0: dict(state_dict)}
        models.setdefault(int(found[1]), {})[found[2]] = value
    return models

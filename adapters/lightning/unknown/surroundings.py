"""What Lightning must leave as it is where it trains as Determined did."""

from typing import Any

import torch

from det_compat.adapters.lightning.door import changes_of
from det_compat.shared.random_state import random_state

Surroundings = dict[str, Any]

#: The words for another default dtype.
DTYPE = "sets another default dtype"


def surroundings() -> Surroundings:
    """What any code of the process may have changed, by the words for it."""
    state = random_state()
    numpy = state.get("numpy")
    return {
        "draws random numbers of Python": state["python"],
        "draws random numbers of NumPy": numpy and (numpy[0], numpy[1].tobytes(), *numpy[2:]),
        "draws random numbers of torch": state["torch"].numpy().tobytes(),
        DTYPE: torch.get_default_dtype(),
    }


def state_of(models: torch.nn.Module) -> Surroundings:
    """What a change of models between two batches would show in."""
    parameters = [*models.parameters()]
    gradients = [parameter.grad for parameter in parameters]
    return {
        "changes the modes of models": [part.training for part in models.modules()],
        "changes weights": [*map(changes_of, parameters)],
        "changes gradients": [
            None if gradient is None else (id(gradient), changes_of(gradient))
            for gradient in gradients
        ],
    }


def weights_of(models: torch.nn.Module) -> list[float]:
    """Numbers that are others if weights are, and the same on another device."""
    sums = [parameter.detach().double().sum() for parameter in models.parameters()]
    return [float(f"{value.item():.9e}") for value in sums]


def difference(before: Surroundings, now: Surroundings) -> str | None:
    """What has changed, in words; None for nothing."""
    return next((what for what in before if what in now and before[what] != now[what]), None)

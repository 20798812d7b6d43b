"""What Lightning must leave as it is where it trains as Determined did."""

from typing import Any

import torch

from det_compat.adapters.lightning.door import changes_of
from det_compat.pytorch.lr_scheduler import settings_of
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


def state_of(models: torch.nn.Module, optimizers: list[Any]) -> Surroundings:
    """What a change of models and optimizers between two batches would show in."""
    gradients = [parameter.grad for parameter in models.parameters()]
    return {
        "changes the modes of models": [part.training for part in models.modules()],
        "changes weights": [*map(changes_of, _tensors_of(models))],
        "changes gradients": [
            None if gradient is None else (id(gradient), changes_of(gradient))
            for gradient in gradients
        ],
        "changes learning rates": [*map(settings_of, optimizers)],
        "changes what optimizers keep": [*map(_kept_by, optimizers)],
    }


def _kept_by(optimizer: Any) -> list[Any]:
    states = getattr(optimizer, "state", {}).values()
    kept = [state for state in states if isinstance(state, dict)]
    tensors = [value for state in kept for value in state.values() if torch.is_tensor(value)]
    return [len(kept), *map(changes_of, tensors)]


def numbers_of(models: torch.nn.Module) -> Surroundings:
    """What a change of models shows in that torch has not seen, the same on another device."""
    gradients = [p.grad for p in models.parameters() if p.grad is not None]
    return {
        "changes numbers of weights": [*map(_sum_of, _tensors_of(models))],
        "changes numbers of gradients": [*map(_sum_of, gradients)],
    }


def _tensors_of(models: torch.nn.Module) -> list[torch.Tensor]:
    return [*models.parameters(), *models.buffers()]


def _sum_of(tensor: torch.Tensor) -> str:
    return f"{tensor.detach().double().sum().item():.9e}"  # as text, since nan is unlike itself


def difference(before: Surroundings, now: Surroundings) -> str | None:
    """What has changed, in words; None for nothing."""
    return next((what for what in before if what in now and before[what] != now[what]), None)

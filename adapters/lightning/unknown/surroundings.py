"""What Lightning must leave as it is where it trains as Determined did."""

import contextlib
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

import torch

from det_compat.adapters.lightning.door import changes_of
from det_compat.pytorch.lr_scheduler import settings_of
from det_compat.shared.random_state import random_state

Surroundings = dict[str, Any]


class Setting(NamedTuple):
    """One thing that says how torch computes in this process, and two values that it may have."""

    get: Callable[[], Any]
    set: Callable[[Any], None]
    values: tuple[Any, Any]


def _of_backend(backend: Any, name: str) -> Setting:
    return Setting(partial(getattr, backend, name), partial(setattr, backend, name), (False, True))


#: The words for another default dtype.
DTYPE = "sets another default dtype"

#: What results depend upon beside a trial's own code, by the words for another value.
SETTINGS = {
    DTYPE: Setting(
        torch.get_default_dtype, torch.set_default_dtype, (torch.float32, torch.float64)
    ),
    "sets the number of threads": Setting(torch.get_num_threads, torch.set_num_threads, (1, 2)),
    "sets whether algorithms are deterministic": Setting(
        torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode, (0, 1)
    ),
    "turns cuDNN's benchmark on or off": _of_backend(torch.backends.cudnn, "benchmark"),
    "turns MKL-DNN on or off": _of_backend(torch.backends.mkldnn, "enabled"),
}


def surroundings() -> Surroundings:
    """What any code of the process may have changed, by the words for it."""
    state = random_state()
    numpy = state.get("numpy")
    return {
        "draws random numbers of Python": state["python"],
        "draws random numbers of NumPy": numpy and (numpy[0], numpy[1].tobytes(), *numpy[2:]),
        "draws random numbers of torch": state["torch"].numpy().tobytes(),
        **{words: setting.get() for words, setting in SETTINGS.items()},
        "sets the precision of float32 products": _float32_products(),
    }


def _float32_products() -> str | None:
    """Their precision; None where a program has set it by newer names, and torch does not say."""
    with contextlib.suppress(RuntimeError):
        return torch.get_float32_matmul_precision()
    return None


# torch 2.4 to 2.15 have no public names for the hooks of a module and of a tensor.
_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")
_hooks_of = attrgetter("_backward_hooks")


def state_of(models: torch.nn.Module, optimizers: list[Any]) -> Surroundings:
    """What a change of models and optimizers between two batches would show in."""
    gradients = [parameter.grad for parameter in models.parameters()]
    return {
        "changes the modes of models": [part.training for part in models.modules()],
        "freezes or thaws weights": [one.requires_grad for one in models.parameters()],
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


def hooks_of(models: torch.nn.Module, optimizers: list[Any]) -> Surroundings:
    """What else runs in forward and backward passes, and in steps, than was there before."""
    parts = [vars(part) for part in models.modules()]
    return {
        "adds hooks to models": [len(part.get(name) or ()) for part in parts for name in _HOOKS],
        "adds hooks to weights": [len(_hooks_of(one) or ()) for one in models.parameters()],
        "replaces steps of optimizers": [vars(one).get("step") for one in optimizers],
    }


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

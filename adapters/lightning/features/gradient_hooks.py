"""Lightning's hooks around backward passes and steps, which a trial makes by its context."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from det_compat.adapters.lightning.epoch_loop import replaces
from det_compat.adapters.lightning.package import pl
from det_compat.adapters.lightning.strategy import callbacks_of
from det_compat.pytorch.context.gradient_hooks import GradientHooks

_HOOKS = (
    "on_before_backward",
    "on_after_backward",
    "on_before_optimizer_step",
    "on_before_zero_grad",
)


def hooks_of(trainer: pl.Trainer, module: pl.LightningModule) -> GradientHooks | None:
    """What calls those hooks of the Trainer's callbacks, and then of the module, in this order.

    None if nobody has any of them. Lightning 2.6.6 calls all but the last for modules that step by
    themselves, too.
    """
    found = {name: _calls(name, trainer, module) for name in _HOOKS}
    if not any(found.values()):
        return None
    return GradientHooks(*(_in_turn(found[name]) for name in _HOOKS))


def _calls(name: str, trainer: pl.Trainer, module: pl.LightningModule) -> list[Callable[..., Any]]:
    with_hook = [one for one in callbacks_of(trainer) if replaces(one, pl.Callback, name)]
    return [
        *(partial(getattr(callback, name), trainer, module) for callback in with_hook),
        *([getattr(module, name)] if replaces(module, pl.LightningModule, name) else []),
    ]


def _in_turn(calls: Sequence[Callable[..., Any]]) -> Callable[..., None]:
    def call(*args: Any) -> None:
        for one in calls:
            one(*args)

    return call

"""Lightning's hooks around backward passes and steps, which a trial makes by its context."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

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
    hooks = [getattr(callback, name) for callback in callbacks_of(trainer)]
    own = getattr(module, name)
    return [
        *(partial(hook, trainer, module) for hook in hooks if not _is_of(hook, pl.Callback, name)),
        *([] if _is_of(own, pl.LightningModule, name) else [own]),
    ]


def _is_of(hook: Any, base: type, name: str) -> bool:
    """Whether ``hook`` is the one of ``base``, which does nothing."""
    return getattr(hook, "__func__", None) is getattr(base, name)


def _in_turn(calls: Sequence[Callable[..., Any]]) -> Callable[..., None]:
    def call(*args: Any) -> None:
        for one in calls:
            one(*args)

    return call

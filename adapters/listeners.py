"""Who would notice if Lightning's loops left out a hook."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.profilers import PassThroughProfiler

# Callbacks of these packages write to loggers by themselves, and never through the module.
_LOG_BY_THEMSELVES = ("pytorch_lightning.", "det_compat.")

Listeners = list[Callable[..., Any]]


def is_overridden(found: object, base: type, name: str) -> bool:
    """Whether ``found`` has another method ``name`` than ``base``."""
    return getattr(type(found), name) is not getattr(base, name) or name in vars(found)


def listeners(trainer: pl.Trainer, hook: str) -> Listeners:
    """What the Trainer's callbacks have for a hook, in their order."""
    callbacks: list[pl.Callback] = trainer.callbacks  # type: ignore[attr-defined]
    return [getattr(c, hook) for c in callbacks if is_overridden(c, pl.Callback, hook)]


def may_log(found: Listeners) -> bool:
    """Whether one of them may call ``pl_module.log``, for which Lightning collects results."""
    owners = [getattr(listener, "__self__", listener) for listener in found]
    return not all(type(owner).__module__.startswith(_LOG_BY_THEMSELVES) for owner in owners)


def tell(found: Listeners, hook: str, *args: Any) -> None:
    """Call them with the Trainer, its module and ``args``, as Lightning does."""
    trainer, module = args[:2]
    if found:
        module._current_fx_name = hook
        for listener in found:
            listener(trainer, module, *args[2:])
        module._current_fx_name = None


def is_watched(trainer: pl.Trainer) -> bool:
    """Whether a profiler wants to know of each hook, or a datamodule has hooks of its own."""
    flags: Any = trainer
    return not isinstance(flags.profiler, PassThroughProfiler) or flags.datamodule is not None

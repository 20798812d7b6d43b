"""``LRScheduler(scheduler, step_every_batch=..., step_every_epoch=...)``, before step modes."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec

P = ParamSpec("P")


def takes_early_keywords(init: Callable[P, None]) -> Callable[P, None]:
    """Let ``LRScheduler.__init__`` take the keywords that PEDL and early 0.12 had.

    Neither of them true is MANUAL_STEP: the trial steps the scheduler itself.
    """

    @functools.wraps(init)
    def with_early_keywords(*args: Any, **kwargs: Any) -> None:
        given = {
            key: kwargs.pop(key)
            for key in ("step_every_batch", "step_every_epoch")
            if key in kwargs
        }
        if given:
            step_mode = _step_mode(type(args[0]).StepMode, **given)
            if len(args) > 2 or "step_mode" in kwargs:
                raise TypeError(
                    f"LRScheduler got a step_mode and also {', '.join(given)}: give step_mode alone"
                )
            kwargs["step_mode"] = step_mode
        init(*args, **kwargs)

    return with_early_keywords


def _step_mode(modes: Any, step_every_batch: bool = False, step_every_epoch: bool = False) -> Any:
    if step_every_batch and step_every_epoch:
        raise TypeError(
            "LRScheduler got step_every_batch=True and step_every_epoch=True: choose one"
        )
    if step_every_batch:
        return modes.STEP_EVERY_BATCH
    return modes.STEP_EVERY_EPOCH if step_every_epoch else modes.MANUAL_STEP

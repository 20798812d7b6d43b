"""Who hears of a hook of Lightning's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytorch_lightning as pl


def is_overridden(found: object, base: type, name: str) -> bool:
    """Whether ``found`` has another method ``name`` than ``base``."""
    method = getattr(found, name, None)
    return getattr(method, "__func__", None) is not getattr(base, name)


class Listeners:
    """What a Trainer's callbacks have for a pair of hooks, in the order of the callbacks.

    Args:
        trainer: the Trainer.
        hooks: the names of the hooks.
    """

    def __init__(self, trainer: pl.Trainer, hooks: tuple[str, str]) -> None:
        self._trainer: Any = trainer
        self._hooks = hooks
        self._callbacks: list[pl.Callback] = []
        self._methods: dict[str, list[Callable[..., Any]]] = {}
        self.refresh()

    def refresh(self) -> None:
        """Look at the callbacks again."""
        self._callbacks = [*self._trainer.callbacks]
        self._methods = {
            hook: [
                getattr(callback, hook)
                for callback in self._callbacks
                if is_overridden(callback, pl.Callback, hook)
            ]
            for hook in self._hooks
        }

    def tell(self, hook: str, *args: Any) -> None:
        """Call what the callbacks have for ``hook``, as Lightning does."""
        if self._trainer.callbacks != self._callbacks:
            self.refresh()
        if not self._methods[hook]:
            return
        module = self._trainer.lightning_module
        before = module._current_fx_name
        module._current_fx_name = hook
        for method in self._methods[hook]:
            method(self._trainer, module, *args)
        module._current_fx_name = before

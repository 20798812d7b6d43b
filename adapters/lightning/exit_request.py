"""ShouldExit, by which user code ends training from within a function of its own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from det_compat.adapters.lightning import door
from det_compat.adapters.lightning.package import pl
from det_compat.pytorch.private.boundaries import ShouldExit

if TYPE_CHECKING:
    from det_compat.adapters.lightning.run_module import RunModule

Module = TypeVar("Module", bound=type[Any])

# The hooks in which user code is called while a trial is trained.
_HOOKS = (
    *("training_step", "on_train_batch_end", "on_train_epoch_end"),
    *("on_validation_model_eval", "on_validation_start", "validation_step", "validation_steps"),
    *("on_validation_epoch_end", "on_validation_end"),
)


def ends_on_request(module_cls: Module) -> Module:
    """A RunModule class, with hooks after which ``fit`` returns where user code raised it."""
    for name in _HOOKS:
        setattr(module_cls, name, _ending(getattr(module_cls, name)))
    return module_cls


def _ending(hook: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(hook)
    def asked(self: RunModule, *args: Any, **kwargs: Any) -> Any:
        try:
            return hook(self, *args, **kwargs)
        except ShouldExit as request:
            if self.trainer.state.fn != pl.trainer.states.TrainerFn.FITTING:
                raise
            self.run.is_stopping = True
            self.pace.asked_to_exit(self, saves=not request.skip_exit_checkpoint)
        door.end_quietly()

    return asked

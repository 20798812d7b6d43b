"""The callbacks of a trial."""

import contextlib
import inspect
import logging
from pathlib import Path
from typing import Any

from det_compat.adapters.generations.old_callbacks import OldCallback
from det_compat.pytorch.overrides import is_user_code

logger = logging.getLogger("determined.pytorch")


class TrialCallbacks:
    """What ``build_callbacks()`` returned, called in its order."""

    def __init__(self, callbacks: dict[str, Any]) -> None:
        if not isinstance(callbacks, dict):
            raise TypeError(
                "build_callbacks() must return a dict of callbacks by name, got "
                f"{type(callbacks).__name__}"
            )
        self._callbacks = callbacks
        self._shutdown = contextlib.ExitStack()
        for name, callback in callbacks.items():
            if not callable(getattr(callback, "on_trial_startup", None)):
                raise TypeError(
                    f"build_callbacks() must return objects of subclasses of PyTorchCallback, got "
                    f"{callback!r} ({type(callback).__name__}) for {name!r}"
                )
            if is_user_code(callback.on_checkpoint_end, "PyTorchCallback"):
                logger.warning(
                    f"callback {name!r} defines on_checkpoint_end(), which is deprecated: rename "
                    "it to on_checkpoint_write_end()"
                )
            if _clips_in_vain(callback):
                logger.warning(
                    f"callback {name!r} defines on_before_optimizer_step(), which nothing calls "
                    "for trials of the context API since Determined 0.12.13: pass clip_grads=... "
                    "to context.step_optimizer()"
                )

    def call(self, hook: str, *args: Any, **kwargs: Any) -> None:
        """Call the method ``hook`` of every callback."""
        for callback in self._callbacks.values():
            getattr(callback, hook)(*args, **kwargs)

    def startup(self, first_batch_idx: int, checkpoint_uuid: str | None) -> None:
        """``on_trial_startup``; who has started is shut down in the end, whatever happens."""
        for callback in self._callbacks.values():
            callback.on_trial_startup(first_batch_idx, checkpoint_uuid)
            self._shutdown.callback(callback.on_trial_shutdown)

    def shutdown(self) -> None:
        """``on_trial_shutdown``, last started first; once."""
        self._shutdown.close()

    def epoch_start(self, epoch_idx: int) -> None:
        """``on_training_epoch_start``, which before Determined 0.17.8 had no parameter."""
        for callback in self._callbacks.values():
            hook = callback.on_training_epoch_start
            hook(epoch_idx) if inspect.signature(hook).parameters else hook()

    def checkpoint_written(self, path: str) -> None:
        """``on_checkpoint_end``, then ``on_checkpoint_write_end``, of one callback at a time."""
        for callback in self._callbacks.values():
            callback.on_checkpoint_end(path)
            callback.on_checkpoint_write_end(path)

    def file_written(self, path: Path) -> None:
        """The same for a checkpoint that is one file, in the process that has written it."""
        self.checkpoint_written(str(path.parent))
        self.call("on_checkpoint_upload_end", uuid=path.stem)

    def state_dict(self) -> dict[str, Any]:
        """The state of every callback, by name."""
        return {name: callback.state_dict() for name, callback in self._callbacks.items()}

    def load_state_dict(self, states: dict[str, Any]) -> None:
        """Restore each callback that has a state; say so if one expects a state and has none."""
        for name, callback in self._callbacks.items():
            if name in states:
                callback.load_state_dict(states[name])
            elif is_user_code(callback.load_state_dict, "PyTorchCallback"):
                logger.warning(
                    f"the checkpoint has no state for callback {name!r}, which starts from scratch"
                )


def _clips_in_vain(callback: Any) -> bool:
    if isinstance(callback, OldCallback):
        return False
    return is_user_code(getattr(callback, "on_before_optimizer_step", None), "PyTorchCallback")

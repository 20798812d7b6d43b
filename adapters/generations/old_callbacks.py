"""Callbacks of older generations, as callbacks of today."""

import contextlib
from typing import Any

from det_compat.config.periods import batches_per_step
from det_compat.pytorch.callback import PyTorchCallback
from det_compat.pytorch.context.steering import Steering
from det_compat.pytorch.context.trial_context import PyTorchTrialContext
from det_compat.pytorch.data import data_length
from det_compat.pytorch.overrides import takes_parameter


class OldCallback:
    """Calls the hooks that a callback had, where their successors are called.

    A training "step" was what is a reporting period now: ``on_train_step_start(step_id)`` and
    ``on_train_step_end(step_id, metrics)`` count them from 1. Hooks that a callback does not have
    do nothing; all else is the callback's own.
    """

    def __init__(self, callback: Any, context: PyTorchTrialContext) -> None:
        self._callback = callback
        self._ranks = context.distributed.size
        self._batches_per_step = batches_per_step(Steering(context).exp_conf)
        self._step_id = 1
        self._in_step = False
        self._num_inputs = 0

    def __getattr__(self, name: str) -> Any:
        if name == "_callback":  # It is not there yet while this is unpickled or copied.
            raise AttributeError(name)
        found = getattr(self._callback, name, None)
        return getattr(_NO_CALLBACK, name) if found is None else found

    def _call(self, hook: str, *args: Any) -> None:
        getattr(self._callback, hook, _nothing)(*args)

    @property
    def clips(self) -> bool:
        """Whether the callback has ``on_before_optimizer_step``."""
        return hasattr(self._callback, "on_before_optimizer_step")

    def on_before_optimizer_step(self, parameters: Any) -> None:
        """Call the hook: gradients are synchronized, averaged and unscaled."""
        self._call("on_before_optimizer_step", parameters)

    def on_trial_startup(self, first_batch_idx: int, checkpoint_uuid: str | None) -> None:
        """Begin to count steps; a run that resumes goes on counting."""
        self._step_id = first_batch_idx // self._batches_per_step + 1
        self._in_step, self._num_inputs = False, 0
        self._call("on_trial_startup", first_batch_idx, checkpoint_uuid)

    def begin_batch(self, batch: Any) -> None:
        """Count the records of a batch before it is trained, as if every rank had as many."""
        self._begin_step()
        # Batches that are no arrays came later, and are not counted.
        with contextlib.suppress(TypeError, ValueError):
            self._num_inputs += data_length(batch) * self._ranks

    def _begin_step(self) -> None:
        if not self._in_step:
            self._in_step = True
            self._call("on_train_step_start", self._step_id)

    def on_training_epoch_start(self, epoch_idx: int) -> None:
        """Begin the step before the epoch, where both start together."""
        self._begin_step()
        hook = getattr(self._callback, "on_training_epoch_start", _nothing)
        hook(epoch_idx) if takes_parameter(hook, "epoch_idx", 1) else hook()

    def on_training_workload_end(
        self, avg_metrics: dict[str, Any], batch_metrics: list[dict[str, Any]]
    ) -> None:
        """End the step, which was a training workload."""
        metrics = {
            "num_inputs": self._num_inputs,
            "batch_metrics": batch_metrics,
            "avg_metrics": avg_metrics,
        }
        self._call("on_train_step_end", self._step_id, metrics)
        self._call("on_training_workload_end", avg_metrics, batch_metrics)
        self._step_id += 1
        self._in_step, self._num_inputs = False, 0

    def on_validation_start(self) -> None:
        """Call the older hook ``on_validation_step_start`` first."""
        self._call("on_validation_step_start")
        self._call("on_validation_start")

    def on_validation_end(self, metrics: dict[str, Any]) -> None:
        """Call the older hook ``on_validation_step_end`` first."""
        self._call("on_validation_step_end", metrics)
        self._call("on_validation_end", metrics)


_NO_CALLBACK = PyTorchCallback()


def _nothing(*args: Any) -> None:
    pass

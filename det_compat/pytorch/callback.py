"""Callbacks of a trial, and the two with which Determined 0.12 clipped gradients."""

from collections.abc import Iterable
from typing import Any

import torch


class PyTorchCallback:
    """Base class of what ``PyTorchTrial.build_callbacks`` returns, as in Determined 0.38.1.

    Override what you need; the methods here do nothing. Every rank runs its own copy, except for
    ``on_checkpoint_end`` and ``on_checkpoint_write_end``, which run on the chief only. A callback
    that keeps state must override ``state_dict`` and ``load_state_dict`` to have it checkpointed.
    """

    def on_trial_startup(self, first_batch_idx: int, checkpoint_uuid: str | None) -> None:
        """This is called before anything else: training, validation, loaders.

        ``first_batch_idx`` is the first batch to be trained, above 0 when training resumes;
        ``checkpoint_uuid`` the checkpoint it starts from, if any.
        """

    def on_trial_shutdown(self) -> None:
        """This is called when training ends, by an exception as well."""

    def on_training_start(self) -> None:
        """This is called after a checkpoint was loaded, before the first batch."""

    def on_training_epoch_start(self, epoch_idx: int) -> None:
        """This is called before the first batch of an epoch."""

    def on_training_epoch_end(self, epoch_idx: int) -> None:
        """This is called after an epoch's last batch, before what else is due there."""

    def on_training_workload_end(
        self, avg_metrics: dict[str, Any], batch_metrics: dict[str, Any]
    ) -> None:
        """This is called after each reporting period of training.

        ``avg_metrics`` are its averages and reduced metrics, ``batch_metrics`` those of each batch.
        """

    def on_validation_start(self) -> None:
        """This is called before each validation."""

    def on_validation_epoch_start(self) -> None:
        """This is called before the first batch of each validation by ``evaluate_batch``."""

    def on_validation_epoch_end(self, outputs: list[Any]) -> None:
        """This is called after the last batch, with the metrics of each batch of this rank."""

    def on_validation_end(self, metrics: dict[str, Any]) -> None:
        """This is called after each validation, with the reduced metrics, in eval mode."""

    def on_checkpoint_load_start(self, checkpoint: dict[str, Any]) -> None:
        """This is called before the state in ``checkpoint`` is restored; it may be changed."""

    def on_checkpoint_save_start(self, checkpoint: dict[str, Any]) -> None:
        """This is called before ``checkpoint`` is written; entries may be added."""

    def on_checkpoint_end(self, checkpoint_dir: str) -> None:
        """This is deprecated in Determined 0.38.1: use ``on_checkpoint_write_end``."""

    def on_checkpoint_write_end(self, checkpoint_dir: str) -> None:
        """The chief alone calls this, after a checkpoint was written to ``checkpoint_dir``."""

    def on_checkpoint_upload_end(self, uuid: str) -> None:
        """This is called after a checkpoint reached its storage."""

    def state_dict(self) -> dict[str, Any]:
        """The state to keep in checkpoints, which has to be picklable."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take back what ``state_dict`` returned."""


class ClipGradsL2Norm(PyTorchCallback):
    """Clips the L2 norm of all gradients together to ``clip_value`` before each optimizer step."""

    def __init__(self, clip_value: float) -> None:
        self._clip_value = clip_value

    def on_before_optimizer_step(self, parameters: Iterable[torch.Tensor]) -> None:
        """Clip the gradients, which are synchronized between ranks by now."""
        torch.nn.utils.clip_grad_norm_(parameters, self._clip_value)


class ClipGradsL2Value(PyTorchCallback):
    """Clips each element of the gradients to ``clip_value`` before each optimizer step."""

    def __init__(self, clip_value: float) -> None:
        self._clip_value = clip_value

    def on_before_optimizer_step(self, parameters: Iterable[torch.Tensor]) -> None:
        """Clip the gradients, which are synchronized between ranks by now."""
        torch.nn.utils.clip_grad_value_(parameters, self._clip_value)

"""What the runner of a trial reads and sets in the trial's context."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from det_compat import core
from det_compat.pytorch.context.trial_context import PyTorchTrialContext


class Steering:
    """The side of a context that the runner of a trial works with.

    It stands beside the context, since trials probe their context for attributes: whatever has a
    public name there is seen by user code.

    Attributes:
        context: the context that the trial was given.
    """

    def __init__(self, context: PyTorchTrialContext) -> None:
        self.context = context

    # What the trial was given

    @property
    def core(self) -> core.Context:
        """Its ranks, reports, checkpoints and preemption."""
        return self.context._core

    @property
    def hparams(self) -> dict[str, Any] | None:
        """The hyperparameters as they were given; None if none were."""
        return self.context._hparams

    @property
    def exp_conf(self) -> dict[str, Any] | None:
        """The experiment config as it was given; None if none was."""
        return self.context._exp_conf

    @property
    def is_trained(self) -> bool:
        """Whether the context moves models to the device; False for a trial that is only loaded."""
        return self.context._managed_training

    # What the trial registered

    @property
    def inner_models(self) -> list[nn.Module]:
        """The wrapped models without DistributedDataParallel, in the order of ``wrap_model``."""
        return self.context._inner_models

    @property
    def reducers(self) -> list[Any]:
        """The reducers, in the order of ``wrap_reducer``."""
        return [wrapped.reducer for wrapped in self.context._wrapped_reducers]

    @property
    def adapted_trials(self) -> list[Any]:
        """The adapters that were made around trials of this context, for whoever makes them."""
        return self.context._adapted_trials

    @property
    def moves_batches(self) -> bool:
        """Whether batches are moved to the device before the trial gets them."""
        return self.context.experimental._auto_to_device

    @property
    def takes_any_loader(self) -> bool:
        """Whether the trial may return loaders that are no ``det_compat.pytorch.DataLoader``."""
        return self.context.experimental._data_repro_checks_disabled

    # Where training is

    def start_at(self, batches: int) -> None:
        """Have ``context.get_initial_batch`` return ``batches``, and forget who asked for it."""
        self.context._steps_completed = batches
        self.context._told_initial_batch = False

    @property
    def told_initial_batch(self) -> bool:
        """Whether the trial has learned, since ``start_at``, that it starts above batch 0."""
        return self.context._told_initial_batch

    def at_batch(self, batch_idx: int) -> None:
        """Make ``batch_idx``, which counts from the start of training, the current batch."""
        self.context._current_batch_idx = batch_idx

    def set_epoch_length(self, batches: int) -> None:
        """Set the number of batches after which an epoch ends."""
        self.context._epoch_len = batches

    def count_epoch_by(self, count: Callable[[], int]) -> None:
        """Have ``count`` called for the length of an epoch, if it is asked for before it is set."""
        self.context._count_epoch = count

    def epoch_length(self) -> int:
        """The number of batches in an epoch.

        Raises:
            InternalException: the training data loader is not built yet.
        """
        return self.context._epoch_length()

    # Gradients

    @property
    def aggregation_frequency(self) -> int:
        """The number of batches over which gradients are accumulated."""
        return self.context._aggregation_frequency

    def steps_on_this_batch(self) -> bool:
        """Whether optimizers step on the current batch; False where gradients only accumulate."""
        return self.context._should_communicate_and_update()

    @property
    def scaler(self) -> Any:
        """The gradient scaler, whoever made it; None without mixed precision."""
        return self.context._scaler

    def update_scaler(self) -> None:
        """Update the scaler after a batch, unless the trial does so itself.

        It is updated once a batch, however many optimizers stepped, as torch asks of one scaler in
        a training loop.
        """
        context = self.context
        if (
            context._scaler is not None
            and context.experimental._auto_amp
            and context._should_communicate_and_update()
        ):
            context._scaler.update()

    def adopt_scaler(self, scaler: Any | None) -> None:
        """Scale and step with a scaler that somebody else made; the trial knows nothing of it.

        None gives up a scaler that was adopted before.
        """
        context = self.context
        context._scaler = scaler
        context._scaler_is_adopted = context.experimental._auto_amp = scaler is not None

    @property
    def apex_opt_level(self) -> str | None:
        """The level that the trial gave to ``configure_apex_amp``; None without a call of it."""
        return self.context._apex_opt_level

    @property
    def mixed_precision_call(self) -> str | None:
        """The call by which the trial has set up mixed precision itself; None if it has not."""
        context = self.context
        if context._scaler_is_adopted:
            return None
        if context._apex_opt_level is not None:
            return f"context.configure_apex_amp(opt_level={context._apex_opt_level!r})"
        if context.experimental._auto_amp:
            return "context.experimental.use_amp()"
        return None if context._scaler is None else "context.wrap_scaler(...)"

"""What the runner of a trial reads and sets in the trial's context."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from det_compat.errors import InvalidExperimentException
from det_compat.pytorch.context.ddp import no_gradient_sync
from det_compat.pytorch.context.gradient_hooks import GradientHooks
from det_compat.pytorch.context.trial_context import PyTorchTrialContext

if TYPE_CHECKING:
    from det_compat.pytorch.context.sharding import Sharding


class Steering:
    """The side of a context that the runner of a trial works with.

    It stands beside the context, since trials probe their context for attributes: whatever has a
    public name there is seen by user code.

    Attributes:
        context: the context that the trial was given.
        core: its ranks, reports, checkpoints and preemption.
        hparams: the hyperparameters as they were given; None if none were.
        exp_conf: the experiment config as it was given; None if none was.
        is_trained: whether the context moves models to the device; False for a trial that is only
            loaded.
        aggregation_frequency: the number of batches over which gradients are accumulated.
        inner_models: the wrapped models without DistributedDataParallel, in the order of
            ``wrap_model``.
        adapted_trials: the adapters that were made around trials of this context, for whoever
            makes them.
        steps_on_this_batch: tells whether optimizers step on the current batch; they do not where
            gradients only accumulate.
        epoch_length: tells the number of batches in an epoch, and raises NotThereYetError where
            the training data loader is not built yet.
    """

    def __init__(self, context: PyTorchTrialContext) -> None:
        self.context = context
        self.core = context._core
        self.hparams = context._hparams
        self.exp_conf = context._exp_conf
        self.is_trained = context._managed_training
        self.aggregation_frequency = self._own_frequency = context._aggregation_frequency
        self.inner_models = context._inner_models
        self.adapted_trials = context._adapted_trials
        self.steps_on_this_batch = context._should_communicate_and_update
        self.epoch_length = context._epoch_length

    # These say what the trial has registered.

    @property
    def reducers(self) -> list[Any]:
        """The reducers, in the order of ``wrap_reducer``."""
        return [wrapped.reducer for wrapped in self.context._wrapped_reducers]

    @property
    def moves_batches(self) -> bool:
        """Whether batches are moved to the device before the trial gets them."""
        return self.context.experimental._auto_to_device

    @property
    def takes_any_loader(self) -> bool:
        """Whether the trial may return loaders that are no ``det_compat.pytorch.DataLoader``."""
        return self.context.experimental._data_repro_checks_disabled

    # These say and set where training is.

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

    def convert_models_by(self, convert: Callable[[torch.nn.Module], torch.nn.Module]) -> None:
        """Have ``wrap_model`` convert models to another dtype before it distributes them.

        DistributedDataParallel reduces no gradients of parameters that are converted later.
        """
        self.context._convert_before = convert

    # These are about shards.

    @property
    def sharding(self) -> Sharding | None:
        """What shards the models over the ranks; None where each rank has them whole."""
        return self.context._sharding

    def shard_models(self, sharding: Sharding | None) -> None:
        """Have ``wrap_model`` shard models, if ``sharding`` is given."""
        self.context._sharding = sharding

    def whole(self, state: Any, *, everywhere: bool = False) -> Any:
        """``state`` without shards, complete on the chief, or everywhere. Every rank calls it."""
        if self.sharding is None:
            return state
        return self.sharding.whole(state, everywhere=everywhere)

    def gradient_of(self, parameter: torch.Tensor) -> torch.Tensor | None:
        """The gradient of ``parameter``, without shards. Every rank has to call it."""
        return parameter.grad if self.sharding is None else self.sharding.gradient_of(parameter)

    def put_gradient(self, parameter: torch.Tensor, gradient: torch.Tensor) -> None:
        """Set a gradient that ``gradient_of`` returned."""
        if self.sharding is None:
            parameter.grad = gradient.to(parameter.device)
        else:
            self.sharding.put_gradient(parameter, gradient)

    def make_models_whole(self) -> None:
        """Let each rank run the models as often as it likes, for a validation."""
        if self.sharding is not None:
            self.sharding.make_whole()

    def shard_models_again(self) -> None:
        """Undo ``make_models_whole``."""
        if self.sharding is not None:
            self.sharding.shard_again()

    # These are about gradients.

    def gradient_sync(self) -> contextlib.AbstractContextManager[None]:
        """Keep gradients of a ``train_batch`` on this rank, if the batch only accumulates them."""
        if self.sharding is not None:
            return self.sharding.user_code()
        if self.context.sync_when_accumulating or self.steps_on_this_batch():
            return contextlib.nullcontext()
        return no_gradient_sync(self.context.models)

    def accumulate(self, batches: int) -> None:
        """Accumulate gradients over ``batches`` batches; 1 leaves it to the trial's own setting.

        Raises:
            InvalidExperimentException: the trial's own setting is another number above 1.
        """
        own = self._own_frequency
        if batches != 1 and own not in (1, batches):
            raise InvalidExperimentException(
                f"gradients cannot accumulate over {batches} batches and over "
                f"aggregation_frequency={own}: give one of them"
            )
        self.aggregation_frequency = self.context._aggregation_frequency = max(own, batches)

    def clip(self, clip_grads: Callable[[Any], Any] | None) -> None:
        """Have ``clip_grads`` clip for steps to which the trial gives none of its own."""
        self.context._clips_by_default = clip_grads

    def hook(self, hooks: GradientHooks | None) -> None:
        """Have ``hooks`` called around backward passes and steps; None for nobody."""
        self.context._gradient_hooks = hooks

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

"""The context that a trial gets in its ``__init__``."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from det_compat import core
from det_compat.errors import InvalidExperimentException
from det_compat.pytorch.context import amp, ddp, debugging, settings, tensorboard, transitional
from det_compat.pytorch.context.gradient_hooks import GradientHooks
from det_compat.pytorch.data import to_device
from det_compat.pytorch.lr_scheduler import LRScheduler
from det_compat.pytorch.reducer import ReducerContext

if TYPE_CHECKING:
    from det_compat.pytorch.context.sharding import Sharding


class PyTorchTrialContext(
    settings.TrialSettings,
    settings.TrialProgress,
    tensorboard.TrialTensorBoard,
    ReducerContext,
    transitional.TransitionalContext,
):
    """The ranks, device, hyperparameters and training operations of one trial.

    ``pytorch.init()`` and ``to_lightning`` make it. Methods behave as in Determined 0.38.1 unless
    their docstring says otherwise.

    Attributes:
        device: where models and batches are.
        distributed: ranks, and object collectives between them.
        models, optimizers, lr_schedulers: what was wrapped, in that order.
        average_aggregated_gradients: what ``wrap_optimizer`` does with accumulated gradients unless
            told otherwise.
        ddp_kwargs: keyword arguments for each model's DistributedDataParallel; change them before
            ``wrap_model``.
        sync_when_accumulating: whether gradients are all-reduced on batches that only accumulate,
            as Determined 0.38.1 does. False saves the communication and changes the last bits.
    """

    def __init__(
        self,
        core_context: core.TrialCore,
        trial_seed: int | None,
        hparams: dict[str, Any] | None,
        slots_per_trial: int,
        num_gpus: int,
        exp_conf: dict[str, Any] | None,
        aggregation_frequency: int,
        steps_completed: int,
        managed_training: bool,
        debug_enabled: bool,
        enable_tensorboard_logging: bool = True,
    ) -> None:
        if not isinstance(aggregation_frequency, int) or aggregation_frequency < 1:
            raise InvalidExperimentException(
                f"aggregation_frequency must be an integer of at least 1, "
                f"got {aggregation_frequency!r}"
            )
        self._core = core_context
        self.distributed = core_context.distributed
        settings.TrialSettings.__init__(
            self, hparams, exp_conf, trial_seed, steps_completed, max(slots_per_trial, 1)
        )
        tensorboard.TrialTensorBoard.__init__(self, core_context.train, enable_tensorboard_logging)
        ReducerContext.__init__(self, self.distributed.allgather)
        self._managed_training = managed_training
        self._aggregation_frequency = aggregation_frequency
        self._clips_by_default: Callable[[Any], Any] | None = None
        self._gradient_hooks: GradientHooks | None = None
        optimizations = (exp_conf or {}).get("optimizations") or {}
        # `pytorch.init()` takes this from nowhere; `to_lightning`, like a cluster, from exp_conf.
        self.average_aggregated_gradients = True

        self.device = self._choose_device(num_gpus)
        self.models: list[nn.Module] = []
        self.optimizers: list[torch.optim.Optimizer] = []
        self.lr_schedulers: list[LRScheduler] = []
        self.experimental = settings.PyTorchExperimentalContext(self)
        self.ddp_kwargs: dict[str, Any] = {}
        self.sync_when_accumulating = bool(optimizations.get("sync_when_accumulating", True))

        self._inner_models: list[nn.Module] = []
        self._convert_before: Callable[[nn.Module], nn.Module] | None = None
        self._sharding: Sharding | None = None
        self._adapted_trials: list[Any] = []
        self._average_gradients_of: dict[torch.optim.Optimizer, bool] = {}
        self._scaler: Any = None
        self._scaler_is_adopted = False
        self._apex_opt_level: str | None = None
        self._to_device_warned_types: set[type] = set()

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "PyTorchTrialContext":
        """A context to build a trial with and to call by hand, as in Determined 0.13 to 0.20.

        Args:
            config: an experiment config; hyperparameters that it searches get random values.

        Raises:
            ValueError: a hyperparameter is of no known type.
        """
        return cls(**debugging.arguments(config))

    def _choose_device(self, num_gpus: int) -> torch.device:
        if num_gpus < 1:
            return torch.device("cpu")
        device = torch.device("cuda", self.distributed.local_rank)
        if self.distributed.size > 1:
            torch.cuda.set_device(device)
        return device

    # A trial registers its models, optimizers and schedulers by these.

    def wrap_model(self, model: nn.Module) -> nn.Module:
        """Move ``model`` to the device and, on several ranks, into DistributedDataParallel.

        A module without trainable parameters (a loss, say) is moved only.
        """
        inner = wrapped = model
        if self._managed_training:
            self._refuse_after_apex("wrap_model")
            if self._convert_before is not None:
                model = self._convert_before(model)
            if self._sharding is not None:
                inner = wrapped = self._sharding.shard(model)
            else:
                inner = wrapped = model.to(self.device)
            if self.distributed.size > 1 and self._sharding is None:
                self.distributed.init_process_group()
                wrapped = ddp.distribute(inner, **self.ddp_kwargs)
        if self.experimental._auto_amp:
            amp.autocast_forward(wrapped, self.device)
        self._inner_models.append(inner)
        self.models.append(wrapped)
        return wrapped

    def _refuse_after_apex(self, method: str) -> None:
        if self._apex_opt_level is not None:
            raise InvalidExperimentException(f"call {method}() before configure_apex_amp()")

    def autocast_forward_pass(self, to_wrap: nn.Module) -> nn.Module:
        """Run forward passes of ``to_wrap`` in float16 autocast, as ``use_amp`` does."""
        amp.autocast_forward(to_wrap, self.device)
        return to_wrap

    def wrap_optimizer(
        self,
        optimizer: torch.optim.Optimizer,
        backward_passes_per_step: int = 1,
        fp16_compression: bool | None = None,
        average_aggregated_gradients: bool | None = None,
    ) -> torch.optim.Optimizer:
        """Register ``optimizer`` and return it.

        ``average_aggregated_gradients`` divides accumulated gradients by the aggregation frequency
        before the step; None takes the context's attribute of that name.
        ``backward_passes_per_step`` and ``fp16_compression`` were Horovod's and have no effect.
        """
        if self._managed_training:
            self._refuse_after_apex("wrap_optimizer")
            if backward_passes_per_step < 1:
                raise InvalidExperimentException(
                    f"backward_passes_per_step must be at least 1, got {backward_passes_per_step}"
                )
        if average_aggregated_gradients is None:
            average_aggregated_gradients = self.average_aggregated_gradients
        if self._sharding is not None:
            self._sharding.adopt(optimizer)
        self._average_gradients_of[optimizer] = average_aggregated_gradients
        self.optimizers.append(optimizer)
        return optimizer

    def wrap_lr_scheduler(
        self,
        lr_scheduler: torch.optim.lr_scheduler.LRScheduler,
        step_mode: LRScheduler.StepMode,
        frequency: int = 1,
    ) -> torch.optim.lr_scheduler.LRScheduler:
        """Register ``lr_scheduler`` to be stepped as ``step_mode`` says, and return it.

        Raises:
            InvalidExperimentException: its optimizer is not wrapped, or it is a ReduceLROnPlateau
                in a mode other than MANUAL_STEP.
            TypeError: ``step_mode`` is no StepMode.
        """
        wrapped = LRScheduler(lr_scheduler, step_mode, frequency)
        if (
            isinstance(lr_scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau)
            and wrapped._step_mode is not LRScheduler.StepMode.MANUAL_STEP
        ):
            raise InvalidExperimentException(
                "ReduceLROnPlateau.step() needs a metric, so wrap it with "
                "step_mode=LRScheduler.StepMode.MANUAL_STEP and call its step(metric) yourself, "
                "for example in a callback's on_validation_end(metrics)"
            )
        optimizer = getattr(lr_scheduler, "optimizer", None)
        if optimizer is not None and not any(optimizer is known for known in self.optimizers):
            raise InvalidExperimentException(
                f"the optimizer ({type(optimizer).__name__}) of the LR scheduler "
                f"{type(lr_scheduler).__name__} is not wrapped: call context.wrap_optimizer() on "
                "it before wrap_lr_scheduler()"
            )
        self.lr_schedulers.append(wrapped)
        return lr_scheduler

    def wrap_scaler(self, scaler: Any) -> Any:
        """Register the trial's own gradient scaler, whose state is then kept in checkpoints.

        The trial scales losses, unscales gradients and calls ``update`` itself, and passes the
        scaler to ``step_optimizer``.

        Raises:
            InvalidExperimentException: there is a scaler or a wrapped model already.
        """
        if self._apex_opt_level is not None:
            raise InvalidExperimentException(
                "configure_apex_amp() has set up mixed precision already: remove it to use "
                "wrap_scaler() or use_amp()"
            )
        if self._scaler is not None:
            raise InvalidExperimentException("call wrap_scaler() or use_amp() once, not twice")
        if self.models:
            raise InvalidExperimentException("call wrap_scaler() or use_amp() before wrap_model()")
        self._scaler = scaler
        return scaler

    def configure_apex_amp(
        self,
        models: nn.Module | list[nn.Module],
        optimizers: torch.optim.Optimizer | list[torch.optim.Optimizer],
        enabled: bool | None = True,
        opt_level: str | None = "O1",
        cast_model_type: torch.dtype | None = None,
        patch_torch_functions: bool | None = None,
        keep_batchnorm_fp32: bool | str | None = None,
        master_weights: bool | None = None,
        loss_scale: float | str | None = None,
        cast_model_outputs: torch.dtype | None = None,
        num_losses: int | None = 1,
        verbosity: int | None = 1,
        min_loss_scale: float | None = None,
        max_loss_scale: float | None = 2.0**24,
    ) -> tuple[Any, Any]:
        """Train with torch's own mixed precision, not NVIDIA Apex; returns what it was given.

        O0 is float32. O1, O2 and O3 are float16 autocast of the forward passes with float32 weights
        and one gradient scaler; ``loss_scale`` is "dynamic" or a constant. The other arguments tune
        Apex and have no effect. On devices other than CUDA, where Determined 0.38.1 refuses,
        training stays in float32.

        Raises:
            InvalidExperimentException: there is a gradient scaler already, or a second call.
            ValueError: an ``opt_level`` that Apex does not have, or a ``loss_scale`` that is no
                number.
        """
        if not enabled or not self._managed_training:
            return models, optimizers
        if self._apex_opt_level is not None:
            raise InvalidExperimentException("call configure_apex_amp() once, not twice")
        if self._scaler is not None and self._scaler.is_enabled():
            raise InvalidExperimentException(
                "use_amp() or wrap_scaler() has set up mixed precision already: remove "
                "configure_apex_amp()"
            )
        scaler = amp.apex_scaler(self.device, opt_level, loss_scale, num_losses)
        self._apex_opt_level = opt_level or "O1"
        if scaler is not None:
            self._scaler = scaler
            self.experimental._auto_amp = True
            for model in models if isinstance(models, list) else [models]:
                amp.autocast_forward(model, self.device)
        return models, optimizers

    # A trial trains by these.

    def backward(
        self,
        loss: torch.Tensor,
        gradient: torch.Tensor | None = None,
        retain_graph: bool = False,
        create_graph: bool = False,
    ) -> None:
        """``loss.backward(...)``, on the scaled loss under automatic mixed precision."""
        if self._scaler is not None and self.experimental._auto_amp:
            loss = self._scaler.scale(loss)
        hooks = self._gradient_hooks
        if hooks is not None:
            hooks.before_backward(loss)
        loss.backward(gradient=gradient, retain_graph=retain_graph, create_graph=create_graph)
        if hooks is not None:
            hooks.after_backward()

    def step_optimizer(
        self,
        optimizer: torch.optim.Optimizer,
        clip_grads: Callable[[Iterator[Any]], Any] | None = None,
        auto_zero_grads: bool = True,
        scaler: Any | None = None,
    ) -> None:
        """Step ``optimizer``; on batches that only accumulate gradients, do nothing.

        Args:
            optimizer: a wrapped optimizer.
            clip_grads: called with the parameters, their gradients averaged and unscaled.
            auto_zero_grads: clear the gradients after the step.
            scaler: the trial's own gradient scaler to step with.

        Raises:
            InvalidExperimentException: the optimizer is not wrapped, or ``auto_zero_grads`` is
                False while gradients are aggregated over several batches.
        """
        if self._aggregation_frequency > 1 and not auto_zero_grads:
            raise InvalidExperimentException(
                f"auto_zero_grads=False does not go with aggregation_frequency="
                f"{self._aggregation_frequency}"
            )
        if not self._should_communicate_and_update():
            return
        parameters = [p for group in optimizer.param_groups for p in group.get("params", [])]
        if self._averages_gradients_of(optimizer) and self._aggregation_frequency > 1:
            for parameter in parameters:
                if parameter.grad is not None:
                    parameter.grad.data.div_(float(self._aggregation_frequency))
        automatic = self._scaler if self.experimental._auto_amp else None
        if clip_grads is None and self._clips_by_default is not None:
            if scaler is not None:
                raise InvalidExperimentException(
                    "gradients that the trial scales itself cannot be clipped by the Trainer: "
                    "give clip_grads to step_optimizer() instead of gradient_clip_val"
                )
            clip_grads = self._clips_by_default
        hooks = self._gradient_hooks
        if automatic is not None and (clip_grads is not None or hooks is not None):
            automatic.unscale_(optimizer)
        if hooks is not None:
            hooks.before_step(optimizer)
        if clip_grads is not None:
            # Determined 0.38.1 declares an iterator, and gives a list, too.
            clip_grads(parameters)  # type: ignore[arg-type]
        stepping = automatic if scaler is None else scaler
        if stepping is not None:
            stepping.step(optimizer)
        else:
            optimizer.step()
        if auto_zero_grads:
            if hooks is not None:
                hooks.before_zero_grad(optimizer)
            optimizer.zero_grad()

    def _averages_gradients_of(self, optimizer: torch.optim.Optimizer) -> bool:
        try:
            return self._average_gradients_of[optimizer]
        except KeyError:
            raise InvalidExperimentException(
                f"step_optimizer() got an optimizer ({type(optimizer).__name__}) that is not "
                "wrapped: call context.wrap_optimizer() on it in the trial's __init__"
            ) from None

    def _should_communicate_and_update(self) -> bool:
        if not self._managed_training:
            return True
        # This is asked several times a batch, so it makes no call where training has started.
        batch_idx = self._current_batch_idx
        if batch_idx is None:
            batch_idx = self.current_train_batch()
        return (batch_idx + 1) % self._aggregation_frequency == 0

    def to_device(self, data: Any) -> Any:
        """``data`` on the device: tensors, arrays and anything with ``.to()``, in any nesting."""
        return to_device(data, self.device, self._to_device_warned_types)

    # Determined 0.12.12 had these names for them, and early 0.12 had underscores before the others.
    Model = _Model = wrap_model
    Optimizer = _Optimizer = wrap_optimizer
    _backward = backward
    _step_optimizer = step_optimizer
    _configure_apex_amp = configure_apex_amp
    _to_device = to_device

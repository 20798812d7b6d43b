"""What a trial needs of Lightning's Trainer and strategy, in one place.

Checked with Lightning 2.6.6. The attributes of DDPStrategy that begin with an underscore have no
public counterpart.
"""

from __future__ import annotations

import os
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.plugins.io import TorchCheckpointIO
from pytorch_lightning.strategies import DDPStrategy, SingleDeviceStrategy
from torch.nn.parallel import DistributedDataParallel

from det_compat import core
from det_compat.adapters.checkpoints.checkpoint_io import DeterminedCheckpointIO
from det_compat.adapters.lightning.overhead import cut_overhead
from det_compat.checkpoint.reader import trusts_checkpoints
from det_compat.errors import InvalidExperimentException


def prepare_trainer(trainer: pl.Trainer) -> None:
    """Make the Trainer leave to the trial what is the trial's.

    Raises:
        InvalidExperimentException: the strategy cannot go with a trial.
    """
    strategy = trainer.strategy
    if not isinstance(strategy, (DDPStrategy, SingleDeviceStrategy)):
        raise InvalidExperimentException(
            f"strategy {type(strategy).__name__} does not go with a PyTorchTrial, whose models "
            "are moved and distributed one by one: use strategy='ddp', or one device"
        )
    cut_overhead(trainer)
    # Lightning's check before training would run callbacks and reducers of the trial.
    trainer.num_sanity_val_steps = 0
    # Tensors of inference mode cannot be used in autograd afterwards; Determined's could.
    trainer.fit_loop.epoch_loop.val_loop.inference_mode = False
    trainer.validate_loop.inference_mode = False
    if type(strategy.checkpoint_io) is TorchCheckpointIO:
        strategy.checkpoint_io = DeterminedCheckpointIO(trust=trusts_checkpoints())
    if isinstance(strategy, DDPStrategy):
        # Each model of the trial is in its own DistributedDataParallel already.
        strategy.configure_ddp = _no_outer_ddp  # type: ignore[method-assign]


def check_flags(trainer: pl.Trainer) -> None:
    """Raise InvalidExperimentException if a flag asks for what only the trial can do."""
    asked = {
        "overfit_batches": (0, "its data is one endless stream: use limit_train_batches"),
        "accumulate_grad_batches": (1, "give aggregation_frequency to the module instead"),
        "gradient_clip_val": (None, "call context.step_optimizer(optimizer, clip_grads=...)"),
    }
    for flag, (default, advice) in asked.items():
        found = getattr(trainer, flag, default)
        if found != default:
            raise InvalidExperimentException(
                f"{flag}={found!r} does not go with a PyTorchTrial: {advice}"
            )


def callbacks_of(trainer: pl.Trainer) -> list[pl.Callback]:
    """The Trainer's own list of callbacks, which its class does not declare."""
    callbacks: list[pl.Callback] = trainer.callbacks  # type: ignore[attr-defined]
    return callbacks


def preemption_path(trainer: pl.Trainer, batches: int) -> str:
    """Where to write the checkpoint of a run that is ended: beside the others.

    The name is one of those that ``ckpt_path="last"`` looks for.
    """
    callback = trainer.checkpoint_callback
    folder = getattr(callback, "dirpath", None) or trainer.default_root_dir
    prefix = getattr(callback, "CHECKPOINT_NAME_LAST", "last")
    return os.path.join(folder, f"{prefix}-preempted-batch={batches}.ckpt")


def release_trainer(trainer: pl.Trainer) -> None:
    """Undo what ``prepare_trainer`` changed in the strategy."""
    vars(trainer.strategy).pop("configure_ddp", None)


def _no_outer_ddp() -> None:
    pass


def distributed_context(trainer: pl.Trainer) -> core.DistributedContext:
    """The ranks of a Trainer."""
    if trainer.world_size == 1:
        return core.DummyDistributedContext()
    return core.DistributedContext(
        rank=trainer.global_rank,
        size=trainer.world_size,
        local_rank=trainer.local_rank,
        local_size=trainer.world_size // trainer.num_nodes,
        cross_rank=trainer.node_rank,
        cross_size=trainer.num_nodes,
    )


def ddp_kwargs(trainer: pl.Trainer) -> dict[str, Any]:
    """The keyword arguments that the user gave ``DDPStrategy`` for DistributedDataParallel."""
    if isinstance(trainer.strategy, DDPStrategy):
        return dict(trainer.strategy._ddp_kwargs)
    return {}


def register_comm_hook(trainer: pl.Trainer, models: list[torch.nn.Module]) -> None:
    """Give every model the communication hook that the user gave ``DDPStrategy``."""
    strategy = trainer.strategy
    if not isinstance(strategy, DDPStrategy) or strategy._ddp_comm_hook is None:
        return
    hook = strategy._ddp_comm_hook
    if strategy._ddp_comm_wrapper is not None:
        hook = strategy._ddp_comm_wrapper(hook)
    for model in models:
        if isinstance(model, DistributedDataParallel):
            model.register_comm_hook(strategy._ddp_comm_state, hook)


def log_often_enough(trainer: pl.Trainer, batches: int) -> None:
    """Let Lightning flush loggers, and not warn, where an epoch has only ``batches`` batches."""
    flags = vars(trainer)  # which Trainer does not declare
    flags["log_every_n_steps"] = min(flags["log_every_n_steps"], batches)


def count_step(trainer: pl.Trainer) -> None:
    """Let ``trainer.global_step`` count a batch: checkpoints and loggers go by it."""
    progress = trainer.fit_loop.epoch_loop.manual_optimization.optim_step_progress
    progress.increment_ready()
    progress.increment_completed()

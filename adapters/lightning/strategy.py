"""What a trial needs of Lightning's Trainer and strategy, by public names."""

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
from det_compat.adapters.lightning.door import comm_hook, leave_to_trial
from det_compat.adapters.lightning.epoch_loop import cut_overhead
from det_compat.adapters.lightning.known import examine
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
    examine()
    cut_overhead(trainer)
    leave_to_trial(trainer)
    if type(strategy.checkpoint_io) is TorchCheckpointIO:
        strategy.checkpoint_io = DeterminedCheckpointIO(trust=trusts_checkpoints())


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


def register_comm_hook(trainer: pl.Trainer, models: list[torch.nn.Module]) -> None:
    """Give every model the communication hook that the user gave ``DDPStrategy``."""
    if (given := comm_hook(trainer)) is None:
        return
    for model in models:
        if isinstance(model, DistributedDataParallel):
            model.register_comm_hook(*given)


def log_often_enough(trainer: pl.Trainer, batches: int) -> None:
    """Let Lightning flush loggers, and not warn, where an epoch has only ``batches`` batches."""
    flags: Any = trainer  # whose class does not declare it
    flags.log_every_n_steps = min(flags.log_every_n_steps, batches)

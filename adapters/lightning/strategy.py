"""What a trial needs of Lightning's Trainer and strategy, by public names."""

import os
from collections.abc import Callable
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.plugins.io import TorchCheckpointIO
from pytorch_lightning.strategies import DDPStrategy, SingleDeviceStrategy
from torch.nn.parallel import DistributedDataParallel

from det_compat.adapters.checkpoints.checkpoint_io import DeterminedCheckpointIO
from det_compat.adapters.lightning.door import comm_hook, leave_to_trial
from det_compat.adapters.lightning.known import examine
from det_compat.checkpoint.reader import trusts_checkpoints
from det_compat.errors import InvalidExperimentException
from det_compat.pytorch.context.steering import Steering


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


def register_comm_hook(
    trainer: pl.Trainer, models: list[torch.nn.Module], default: Callable[..., Any] | None = None
) -> None:
    """Give every model the communication hook of the user's ``DDPStrategy``, or ``default``."""
    hook = comm_hook(trainer) or (None, default)
    for model in models:
        if isinstance(model, DistributedDataParallel) and hook[1] is not None:
            model.register_comm_hook(*hook)


def reconcile_precision(trainer: pl.Trainer, steering: Steering) -> None:
    """Let the trial use the Trainer's gradient scaler, if there is one, and no other Trainer's.

    Raises:
        InvalidExperimentException: trial and Trainer both set up precision.
    """
    asked = steering.mixed_precision_call
    if asked is None:
        steering.adopt_scaler(trainer.scaler)
    elif trainer.precision != "32-true":
        raise InvalidExperimentException(
            f"the trial sets up mixed precision itself ({asked}) and the Trainer has precision="
            f"{trainer.precision!r}: remove one of them"
        )


def limited_epoch(trainer: pl.Trainer, batches: int) -> int:
    """The length of an epoch of ``batches`` batches under the Trainer's ``limit_train_batches``."""
    limit = trainer.limit_train_batches
    if limit == 1.0 and isinstance(limit, float):
        return batches
    return min(batches, limit) if isinstance(limit, int) else int(batches * limit)


def log_often_enough(trainer: pl.Trainer, batches: int) -> None:
    """Let Lightning flush loggers, and not warn, where an epoch has only ``batches`` batches."""
    flags: Any = trainer  # whose class does not declare it
    flags.log_every_n_steps = min(flags.log_every_n_steps, batches)

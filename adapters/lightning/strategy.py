"""What a trial needs of Lightning's Trainer, strategy and processes, by public names."""

import logging
import os
import signal
from collections.abc import Callable
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from det_compat import core
from det_compat.adapters.checkpoints.checkpoint_io import DeterminedCheckpointIO
from det_compat.adapters.data.loaders import UNSIZED, ValidationBatches, WholeDataset
from det_compat.adapters.lightning.door import comm_hook, group_timeout, leave_to_trial
from det_compat.adapters.lightning.known import examine, is_known, refusal
from det_compat.adapters.lightning.package import (
    MODULE,
    SETS_DTYPE,
    ClusterEnvironment,
    LightningEnvironment,
    pl,
)
from det_compat.adapters.lightning.unknown.probe import check_defaults
from det_compat.checkpoint.reader import trusts_checkpoints
from det_compat.core.ranks.process_groups import join_torchrun
from det_compat.errors import InvalidExperimentException
from det_compat.pytorch.context.steering import Steering

logger = logging.getLogger("det_compat")


def new_trainer(**flags: Any) -> pl.Trainer:
    """``pl.Trainer(**flags)``, without the advertisement that Lightning 2.6.6 logs with it."""
    log = logging.getLogger(f"{MODULE}.utilities.rank_zero")
    log.addFilter(_is_no_advertisement)
    try:
        return pl.Trainer(**flags)
    finally:
        log.removeFilter(_is_no_advertisement)


def _is_no_advertisement(record: logging.LogRecord) -> bool:
    return "litlogger" not in record.getMessage()


def check_strategy(trainer: pl.Trainer) -> None:
    """Raise InvalidExperimentException if the strategy cannot go with a trial."""
    strategy = trainer.strategy
    if not isinstance(strategy, (pl.strategies.DDPStrategy, pl.strategies.SingleDeviceStrategy)):
        raise InvalidExperimentException(
            f"strategy {type(strategy).__name__} does not go with a PyTorchTrial, whose models "
            "are moved and distributed one by one: use strategy='ddp', or one device; "
            "'fully_shard' shards each of them"
        )


def prepare_trainer(trainer: pl.Trainer) -> None:
    """Make the Trainer leave to the trial what is the trial's.

    Raises:
        InvalidExperimentException: the strategy cannot go with a trial.
    """
    check_strategy(trainer)
    strategy = trainer.strategy
    examine()
    if SETS_DTYPE:
        raise refusal("its import sets another default dtype")
    if not is_known():
        check_defaults()
    leave_to_trial(trainer)
    if type(strategy.checkpoint_io) is pl.plugins.TorchCheckpointIO:
        strategy.checkpoint_io = DeterminedCheckpointIO(trust=trusts_checkpoints())


def join_ranks(trainer: pl.Trainer) -> None:
    """Make the process group under torchrun, whose restarts Lightning 2.6.6 could not join."""
    strategy: Any = trainer.strategy
    if isinstance(strategy, pl.strategies.DDPStrategy):
        is_cpu = strategy.root_device.type == "cpu"
        backend = strategy.process_group_backend or ("gloo" if is_cpu else "nccl")
        join_torchrun(backend, group_timeout(trainer))


def take_gradient_flags(trainer: pl.Trainer) -> dict[str, Any]:
    """The Trainer's flags for gradients, which are what the trial's steps do from now on.

    The Trainer has none until it gets them back: Lightning would refuse them.
    """
    flags: Any = trainer  # Some of these are not declared by the class.
    taken = {"accumulate_grad_batches": flags.accumulate_grad_batches}
    taken["gradient_clip_val"] = flags.gradient_clip_val
    flags.accumulate_grad_batches, flags.gradient_clip_val = 1, None
    return taken


def give_back(trainer: pl.Trainer, taken: dict[str, Any]) -> None:
    """Set the flags that were taken."""
    for name, value in taken.items():
        setattr(trainer, name, value)


def follow_gradient_flags(trainer: pl.Trainer, taken: dict[str, Any], steering: Steering) -> None:
    """Accumulate and clip gradients as flags say that were taken from the Trainer.

    Raises:
        InvalidExperimentException: the trial accumulates over another number of batches.
    """
    steering.accumulate(taken.get("accumulate_grad_batches", 1))
    limit = taken.get("gradient_clip_val")
    if not limit or limit < 0:  # Lightning leaves gradients alone, too.
        steering.clip(None)
    elif trainer.gradient_clip_algorithm == "value":
        steering.clip(lambda parameters: torch.nn.utils.clip_grad_value_(parameters, limit))
    else:
        steering.clip(lambda parameters: torch.nn.utils.clip_grad_norm_(parameters, limit))


def callbacks_of(trainer: pl.Trainer) -> list[pl.Callback]:
    """The Trainer's own list of callbacks."""
    # The class of Lightning 2.6.6 does not declare it.
    callbacks: list[pl.Callback] = trainer.callbacks  # type: ignore[attr-defined]
    return callbacks


def end_other_ranks(trainer: pl.Trainer) -> None:
    """Kill the processes of the other ranks that this Trainer has started, if it has."""
    launcher: Any = trainer.strategy.launcher
    if launcher is not None:
        launcher.kill(signal.SIGKILL)


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
    check_limit("limit_train_batches", limit, batches)
    if limit == 1.0 and isinstance(limit, float):
        return batches
    return min(batches, limit) if isinstance(limit, int) else int(batches * limit)


def overfits(trainer: pl.Trainer) -> int | float:
    """The Trainer's ``overfit_batches``."""
    flags: Any = trainer  # The class does not declare the attribute.
    given: int | float = flags.overfit_batches
    return given


def check_limit(name: str, limit: int | float, batches: int) -> None:
    """Raise InvalidExperimentException if ``limit`` is a part of ``batches`` that nobody knows."""
    if batches >= UNSIZED and isinstance(limit, float) and limit not in (0, 1):
        raise InvalidExperimentException(
            f"{name}={limit} is a part of data that do not say how many batches they have: give a "
            "number of batches"
        )


def check_validation_limit(limit: int | float, data: ValidationBatches | WholeDataset) -> None:
    """See that a Trainer's ``limit_val_batches`` means something for the data of a trial.

    Raises:
        InvalidExperimentException: it is a part of what has no parts that are known.
    """
    if isinstance(data, ValidationBatches):
        check_limit("limit_val_batches", limit, len(data))
    elif limit != 0 and isinstance(limit, int):
        logger.warning(
            f"limit_val_batches={limit}, which fast_dev_run and overfit_batches set, too, does not "
            "reach evaluate_full_dataset(): it gets all of the validation data"
        )
    elif limit not in (0, 1):
        raise InvalidExperimentException(
            f"limit_val_batches={limit} is a part of the validation data, and "
            "evaluate_full_dataset() gets all of them: leave it out, and overfit_batches as well, "
            "or define evaluate_batch()"
        )


def check_flags_without_epochs(trainer: pl.Trainer) -> None:
    """Raise InvalidExperimentException for flags that an epoch of unknown length gives no sense."""
    # A Trainer that validates by the clock lacks the first.
    interval, epochs = getattr(trainer, "val_check_interval", None), trainer.max_epochs
    found = None
    if isinstance(interval, float) and interval != 1:
        found = f"val_check_interval={interval}", "a number of batches"
    elif epochs not in (None, -1) and trainer.max_steps == -1:
        found = f"max_epochs={epochs}", "max_steps, or max_epochs=-1 to train without an end"
    if found is not None:
        raise InvalidExperimentException(
            f"{found[0]} counts epochs, and the training loader does not say how many batches one "
            f"has: give {found[1]}; or limit_train_batches, which makes epochs of so many batches"
        )


def log_often_enough(trainer: pl.Trainer, batches: int) -> None:
    """Let Lightning flush loggers, and not warn, where an epoch has only ``batches`` batches."""
    flags: Any = trainer  # The class does not declare the attribute.
    flags.log_every_n_steps = min(flags.log_every_n_steps, batches)


# Processes, as det_compat counts them and as Lightning does


class TrialEnvironment(ClusterEnvironment):
    """Processes that were started before Lightning, by torchrun for example."""

    def __init__(self, distributed: core.DistributedContext) -> None:
        super().__init__()
        self._distributed = distributed

    @property
    def creates_processes_externally(self) -> bool:
        return True

    @property
    def main_address(self) -> str:
        return os.environ.get("MASTER_ADDR", "127.0.0.1")

    @property
    def main_port(self) -> int:
        return int(os.environ.get("MASTER_PORT", "29500"))

    @staticmethod
    def detect() -> bool:
        return False

    def world_size(self) -> int:
        return self._distributed.size

    def set_world_size(self, size: int) -> None:
        self._expect("world size", size, self._distributed.size)

    def global_rank(self) -> int:
        return self._distributed.rank

    def set_global_rank(self, rank: int) -> None:
        self._expect("rank", rank, self._distributed.rank)

    def local_rank(self) -> int:
        return self._distributed.local_rank

    def node_rank(self) -> int:
        return self._distributed.cross_rank

    @staticmethod
    def _expect(what: str, found: int, expected: int) -> None:
        if found != expected:
            raise RuntimeError(
                f"Lightning counts {what} {found} where pytorch.init() has {expected}: every "
                "machine must run the same number of processes"
            )


def process_flags(ranks: core.DistributedContext) -> dict[str, Any]:
    """The flags of ``pl.Trainer`` for processes that were started before Lightning."""
    if ranks.size == 1:
        plugins = [LightningEnvironment()]
        return {"devices": 1, "num_nodes": 1, "strategy": "auto", "plugins": plugins}
    return {
        "devices": ranks.local_size,
        "num_nodes": ranks.cross_size,
        "strategy": pl.strategies.DDPStrategy(cluster_environment=TrialEnvironment(ranks)),
    }


def distributed_context(trainer: pl.Trainer) -> core.DistributedContext:
    """The ranks of a Trainer."""
    if trainer.world_size == 1:
        return core.DummyDistributedContext()
    return core.DistributedContext.over_process_group(
        rank=trainer.global_rank,
        size=trainer.world_size,
        local_rank=trainer.local_rank,
        local_size=trainer.world_size // trainer.num_nodes,
        cross_rank=trainer.node_rank,
        cross_size=trainer.num_nodes,
    )

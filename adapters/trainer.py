"""``pytorch.Trainer.fit`` on Lightning: Determined's schedule, driven through Lightning's loops."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import Any

import pytorch_lightning as pl
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from pytorch_lightning.strategies import DDPStrategy

from det_compat.adapters.checkpoints.checkpoint_keeper import checkpoint_keeper
from det_compat.adapters.checkpoints.resumption import state_of
from det_compat.adapters.generations.generation import adapted
from det_compat.adapters.lightning.environment import TrialEnvironment
from det_compat.adapters.lightning.preemption import set_handler
from det_compat.adapters.lightning.scheduled import ScheduledHooks
from det_compat.adapters.lightning.strategy import log_often_enough, prepare_trainer
from det_compat.adapters.run.schedule import Schedule
from det_compat.adapters.run.trial_run import TrialRun
from det_compat.checkpoint.reader import read_checkpoint
from det_compat.checkpoint.trust import trusts_checkpoints
from det_compat.fit.checkpoints import RunCheckpoints
from det_compat.pytorch.context.trial_context import PyTorchTrialContext
from det_compat.pytorch.train_unit import TrainUnit
from det_compat.search.train_context import SearchedTrainContext
from det_compat.shared.random_state import preserved_random_state


def fit(
    trial: Any,
    context: PyTorchTrialContext,
    *,
    max_length: TrainUnit,
    validation_period: TrainUnit,
    checkpoint_period: TrainUnit,
    reporting_period: TrainUnit,
    checkpoint_policy: str,
    latest_checkpoint: str | None,
    step_zero_validation: bool,
    test_mode: bool,
    owns_start: bool = False,
) -> None:
    """Train ``trial`` as ``pytorch.Trainer.fit`` says.

    ``owns_start`` says that the run that wrote ``latest_checkpoint`` is this one.
    """
    module = TrainerModule(TrialRun(adapted(trial, context), context), latest_checkpoint)
    module.follow(
        Schedule(max_length, validation_period, checkpoint_period, reporting_period, test_mode),
        checkpoint_keeper(context, checkpoint_policy, owns_start=owns_start),
        validates_first=step_zero_validation,
    )
    on_interrupt = signal.getsignal(signal.SIGINT)
    try:
        with preserved_random_state():
            trainer = _trainer(context, test_mode)
        trainer.fit(module)
    except BaseException as error:
        with contextlib.suppress(Exception):  # the device may be what failed
            _back_to_device(context)
        # Lightning exits on Ctrl-C, and ignores it from then on; the script may want to know.
        if isinstance(error, SystemExit) and isinstance(error.__context__, KeyboardInterrupt):
            set_handler(signal.SIGINT, on_interrupt)
            raise error.__context__ from None
        raise
    _back_to_device(context)


def _trainer(context: PyTorchTrialContext, test_mode: bool) -> pl.Trainer:
    return pl.Trainer(
        **_devices(context),
        **TrainerModule.trainer_flags,
        limit_val_batches=1 if test_mode else None,
        logger=_logger(context),
        enable_progress_bar=_shows_progress(),
        enable_model_summary=False,
    )


def _devices(context: PyTorchTrialContext) -> dict[str, Any]:
    is_cuda = context.device.type == "cuda"
    accelerator = "cuda" if is_cuda else context.device.type
    distributed = context.distributed
    if distributed.size == 1:
        return {
            "accelerator": accelerator,
            "devices": [context.device.index or 0] if is_cuda else 1,
            "plugins": [LightningEnvironment()],
        }
    return {
        "accelerator": accelerator,
        "devices": distributed.local_size,
        "num_nodes": distributed.cross_size,
        "strategy": DDPStrategy(cluster_environment=TrialEnvironment(distributed)),
    }


def _logger(context: PyTorchTrialContext) -> Any:
    if not context.get_enable_tensorboard_logging():
        return False
    from lightning_utilities.core.imports import RequirementCache
    from pytorch_lightning.loggers import TensorBoardLogger

    if not RequirementCache("tensorboard"):
        return False
    return TensorBoardLogger(str(context.get_tensorboard_path()), name="", version="")


def _shows_progress() -> bool:
    return sys.stderr.isatty() or os.environ.get("DET_COMPAT_PROGRESS") == "1"


def _back_to_device(context: PyTorchTrialContext) -> None:
    # Lightning's teardown moves everything to the CPU; scripts go on to use the trial's models.
    if context.device.type == "cpu":
        return
    for model in context.models:
        model.to(context.device)
    for optimizer in context.optimizers:
        optimizer.load_state_dict(optimizer.state_dict())


class TrainerModule(ScheduledHooks):
    """Runs a trial that the script has built."""

    def __init__(self, run: TrialRun, latest_checkpoint: str | None) -> None:
        super().__init__()
        self.attach_run(run)
        self._latest_checkpoint = latest_checkpoint

    def setup(self, stage: str) -> None:
        prepare_trainer(self.trainer)

    def on_fit_start(self) -> None:
        if self._latest_checkpoint is not None:
            directory = self.context._core.checkpoint.find(self._latest_checkpoint)
            self._restored = state_of(read_checkpoint(directory, trust=trusts_checkpoints()))
        super().on_fit_start()
        log_often_enough(self.trainer, self.run.epoch_len)

    def started_from(self) -> str | None:
        return self._latest_checkpoint

    def after_validation(self, metrics: dict[str, Any]) -> None:
        super().after_validation(metrics)
        train, checkpoints = self.context._core.train, self.context._core.checkpoint
        if isinstance(train, SearchedTrainContext) and isinstance(checkpoints, RunCheckpoints):
            latest = self._keeper.latest
            location = None if latest is None else checkpoints.location(latest)
            train.validated(self.run.state.batches_trained, metrics, location)

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
from det_compat.adapters.generations.generation import adapted
from det_compat.adapters.lightning.determined_pace import TRAINER_FLAGS, DeterminedPace, Plan
from det_compat.adapters.lightning.environment import TrialEnvironment
from det_compat.adapters.lightning.pace import OnValidated
from det_compat.adapters.lightning.preemption import set_handler
from det_compat.adapters.lightning.run_module import RunModule
from det_compat.adapters.lightning.sources import BuiltTrial
from det_compat.adapters.run.schedule import Schedule
from det_compat.adapters.run.trial_run import TrialRun
from det_compat.fit.checkpoints import RunCheckpoints
from det_compat.pytorch.context.trial_context import PyTorchTrialContext
from det_compat.pytorch.train_unit import TrainUnit
from det_compat.search.script_reports import SearchedTrainContext
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
    plan = Plan(
        Schedule(max_length, validation_period, checkpoint_period, reporting_period, test_mode),
        checkpoint_keeper(context, checkpoint_policy, owns_start=owns_start),
        validates_first=step_zero_validation,
    )
    pace = DeterminedPace(lambda run: plan)
    pace.on_validation_saved.extend(_search_listeners(context, pace))
    run = TrialRun(adapted(trial, context), context)
    module = RunModule(BuiltTrial(run, latest_checkpoint), pace)
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
        **TRAINER_FLAGS,
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


def _search_listeners(context: PyTorchTrialContext, pace: DeterminedPace) -> list[OnValidated]:
    """Who waits for validations of a script that a search runs."""
    train, checkpoints = context._core.train, context._core.checkpoint
    if not (isinstance(train, SearchedTrainContext) and isinstance(checkpoints, RunCheckpoints)):
        return []

    def tell(batches: int, metrics: dict[str, Any]) -> None:
        latest = pace.keeper.latest
        train.validated(batches, metrics, None if latest is None else checkpoints.location(latest))

    return [tell]

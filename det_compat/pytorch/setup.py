"""``pytorch.init()`` makes the context of a script that trains with ``pytorch.Trainer``."""

import contextlib
import logging
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from det_compat import core
from det_compat.core import train
from det_compat.core.reports.kept import RunReports
from det_compat.errors import InvalidHP
from det_compat.pytorch.context.settings import experiment_seed
from det_compat.pytorch.context.trial_context import PyTorchTrialContext
from det_compat.pytorch.engine import engine
from det_compat.script import own_runs
from det_compat.script.run_paths import RunPaths
from det_compat.script.task import Task, current_task
from det_compat.shared.random_state import set_seed

logger = logging.getLogger("determined.pytorch")


@contextlib.contextmanager
def init(
    *,
    hparams: dict[str, Any] | None = None,
    exp_conf: dict[str, Any] | None = None,
    distributed: core.DistributedContext | None = None,
    aggregation_frequency: int = 1,
    enable_tensorboard_logging: bool = True,
) -> Iterator[PyTorchTrialContext]:
    """The context to build a trial with and to train it in.

    Under torchrun the ranks are taken from its environment and the process group is made, as on a
    Determined cluster. Where ``distributed`` is given, the script may make the process group
    itself; otherwise it is made when it is first needed. A ``det.InvalidHP`` that reaches the end
    of the block ends the process with exit status 0, as in Determined 0.38.1.

    In a script that ``det-compat fit`` runs, the experiment config and the seed are the task's, and
    all random number generators are seeded, as on a cluster.

    Args:
        hparams: hyperparameters.
        exp_conf: the experiment config.
        distributed: ranks, where torchrun's environment does not tell them.
        aggregation_frequency: batches over which gradients are accumulated.
        enable_tensorboard_logging: whether metrics are logged to TensorBoard.
    """
    if distributed is None and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        distributed = core.DistributedContext.from_torch_distributed()
        distributed.init_process_group()
    distributed = distributed or core.DummyDistributedContext()
    task = current_task()
    if task is not None:
        exp_conf = task.config
        set_seed(task.trial_seed)
    with contextlib.closing(distributed):
        path = _tensorboard_path(distributed, task)
        is_kept = task is None and distributed.rank == 0 and own_runs.are_kept(path)
        context = PyTorchTrialContext(
            core_context=core.TrialCore(
                checkpoint=_checkpoints(task, path if is_kept else None),
                distributed=distributed,
                train=_train_context(distributed, task, path, is_kept=is_kept),
                tensorboard_path=path,
            ),
            trial_seed=experiment_seed(exp_conf) if task is None else task.trial_seed,
            hparams=hparams,
            slots_per_trial=distributed.size,
            num_gpus=torch.cuda.device_count(),
            exp_conf=exp_conf,
            aggregation_frequency=aggregation_frequency,
            steps_completed=0 if task is None else task.steps_completed,
            managed_training=True,
            debug_enabled=task is not None and bool(task.config.get("debug")),
            enable_tensorboard_logging=enable_tensorboard_logging,
        )
        about = {"name": Path(sys.argv[0]).stem, **(exp_conf or {})}
        about["hyperparameters"] = hparams or about.get("hyperparameters", {})
        kept = own_runs.kept(path.absolute(), about, str(context._core.checkpoint.base_path))
        with (
            kept if is_kept else contextlib.nullcontext(),
            train.tensorboard_path_is(path),
            _exit_on_invalid_hp(context),
        ):
            try:
                yield context
            finally:
                context.close_tensorboard_writer()


def _tensorboard_path(distributed: core.DistributedContext, task: Task | None) -> Path:
    if task is not None:
        return Path(task.run_dir) / "tensorboard"
    if distributed.size == 1:
        return train.new_tensorboard_path()
    return train.shared_tensorboard_path()


def _checkpoints(task: Task | None, kept: Path | None) -> core.CheckpointStore | None:
    if task is not None:
        return engine().checkpoints(task)
    return None if kept is None else core.CheckpointStore(run=RunPaths(kept))


def _train_context(
    distributed: core.DistributedContext, task: Task | None, path: Path, *, is_kept: bool
) -> core.TrainContext | None:
    if is_kept:
        # The trainer writes the TensorBoard files.
        return RunReports(path.absolute(), path)
    if task is None or distributed.rank != 0:
        return None
    return engine().train_context(task, path)


@contextlib.contextmanager
def _exit_on_invalid_hp(context: PyTorchTrialContext) -> Iterator[None]:
    try:
        yield
    except InvalidHP as error:
        context._core.train.report_early_exit(core.EarlyExitReason.INVALID_HP)
        logger.info(f"the trial raised InvalidHP ({error}); exiting with status 0")
        sys.exit(0)

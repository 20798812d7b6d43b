"""What the processes of a run are told of it, whatever its entrypoint is."""

from typing import Any

from det_compat.config import shims
from det_compat.config.experiment import ExperimentConfig
from det_compat.experiment.environment import restarts
from det_compat.experiment.run_start import RunStart
from det_compat.script.machines import addresses, launched
from det_compat.script.task import Task, current_task


def task_of(
    config: ExperimentConfig,
    start: RunStart | None,
    *,
    trial_id: int = 0,
    attempt: int | None = None,
    slots: int | None = None,
    machines: int = 1,
    exp_conf: dict[str, Any] | None = None,
) -> Task:
    """The task of a run of ``config`` that begins with ``start``.

    A rank that does not know yet how the run begins has what the process that started it told; one
    that another program started has the config's seed, and learns the rest before its trial is
    built.

    Args:
        config: the config; all hyperparameters are constants.
        start: how the run begins; None on a rank that was not told.
        trial_id: the number of the trial in its search.
        attempt: how often the trial has been started, if torchrun does not count it.
        slots: processes that train, if they are others than the config's.
        machines: those that train, where no launcher tells it.
        exp_conf: the experiment config as the trial sees it, if that is another one.
    """
    if start is None and (inherited := current_task()) is not None:
        return inherited
    seed = (config.seed or 0) if start is None else start.seed
    return Task(
        config=shims.with_seed(config.raw, seed) if exp_conf is None else exp_conf,
        hparams=config.hyperparameters.constants(),
        trial_seed=seed,
        slots=slots or max(config.slots_per_trial, 1),
        run_dir="" if start is None else str(start.folder.path),
        latest_checkpoint=None if start is None else start.latest_checkpoint,
        steps_completed=0 if start is None else start.steps_completed,
        trial_id=trial_id,
        attempt=attempt or restarts() + 1,
        addresses=addresses(machines) if launched() is None and machines > 1 else [],
    )

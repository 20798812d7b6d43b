"""A trial of a hyperparameter search: a run of its experiment config that reports to the search."""

import contextlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from det_compat.adapters.experiment.module import ExperimentRun, imported_trial
from det_compat.adapters.experiment.report import ExperimentReport
from det_compat.adapters.experiment.trainer import default_logger, trainer_flags
from det_compat.adapters.lightning.strategy import new_trainer, process_flags
from det_compat.config.experiment import ExperimentConfig, parse_config
from det_compat.config.lengths import Length
from det_compat.core.distributed import DistributedContext, DummyDistributedContext
from det_compat.core.reports.search_line import as_number
from det_compat.experiment import environment, run_folder, run_start
from det_compat.experiment.task import task_of
from det_compat.script.task import told
from det_compat.search.records import starts_of, trial_number
from det_compat.search.tune.attempt import ReportFunction

# The logger of each trial imports it; here what forks trials does so once for all of them.
with contextlib.suppress(ImportError):
    import torch.utils.tensorboard


def train_one(
    config: dict[str, Any],
    run_dir: Path,
    report: ReportFunction,
    resume_from: str | None,
    *,
    model_dir: Path,
    validate_at: Sequence[Length],
) -> None:
    """Train a trial class as ``det-compat fit`` does; see
    ``det_compat.search.tune.attempt.TrainOne``.

    There is a checkpoint after every validation; the best and the latest are kept, as the config's
    ``checkpoint_storage`` says.

    Raises:
        FitError: there is something for the user to mend.
        InvalidHP: the trial raised it.
    """
    experiment = parse_config({**config, "checkpoint_policy": "all"})
    environment.set_environment(experiment)
    ranks: DistributedContext = DummyDistributedContext()
    if torch.distributed.is_initialized():
        ranks = DistributedContext.from_torch_distributed()
    start = None
    if ranks.rank == 0:
        folder = run_folder.RunFolder(run_dir)
        if folder.holds_run:
            # The machine of an earlier process may be lost, with what it knew of them.
            run_start.put_in_order(folder, experiment)
        start = run_start.begin_in(folder, experiment, resume=False)
        # What an earlier process of the trial has written is the trial's own.
        start = replace(start, latest_checkpoint=resume_from, resumes=resume_from is not None)
    number, attempt = trial_number(run_dir), starts_of(run_dir)
    with told(task_of(experiment, start, trial_id=number, attempt=attempt)):
        _train(experiment, start, report, ranks, model_dir, validate_at)


def _train(
    experiment: ExperimentConfig,
    start: run_start.RunStart | None,
    report: ReportFunction,
    ranks: DistributedContext,
    model_dir: Path,
    validate_at: Sequence[Length],
) -> None:
    trial_cls, functions = imported_trial(experiment, model_dir)
    run = ExperimentRun(experiment, trial_cls, model_dir, start, functions, validate_at)

    def tell(batches: int, metrics: dict[str, Any], checkpoint: str | None) -> None:
        report(batches, {name: as_number(value) for name, value in metrics.items()}, checkpoint)

    if start is not None:
        run.pace.on_validation_saved.append(tell)
    trainer = new_trainer(
        **{**trainer_flags(experiment), **process_flags(ranks)},
        logger=default_logger(None if start is None else start.folder),
        enable_progress_bar=False,
        callbacks=[ExperimentReport(run, quiet=True)],
    )
    trainer.fit(run.module)

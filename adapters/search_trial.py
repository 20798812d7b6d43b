"""A trial of a hyperparameter search: a run of ``pytorch.Trainer`` that reports to the search."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import random
import sys
from collections.abc import Container, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from det_compat import core
from det_compat.adapters.fit import fit
from det_compat.adapters.generation import in_context_api
from det_compat.alias import alias_determined
from det_compat.config.experiment import ExperimentConfig, parse_config
from det_compat.config.lengths import Length, Period, Unit
from det_compat.core.tensorboard_path import tensorboard_path_is
from det_compat.errors import InvalidHP
from det_compat.pytorch._context import PyTorchTrialContext
from det_compat.pytorch._settings import experiment_seed
from det_compat.pytorch._train_unit import Batch, Epoch, TrainUnit
from det_compat.search.trial import ReportFunction
from det_compat.secrets import without_secrets

logger = logging.getLogger("det_compat")


def train_one(
    config: dict[str, Any],
    run_dir: Path,
    report: ReportFunction,
    resume_from: str | None,
    *,
    model_dir: Path,
    validate_at: Sequence[Length],
) -> None:
    """Train a trial class; see ``det_compat.search.trial.TrainOne``.

    There is a checkpoint after every validation; the best and the latest are kept, as the config's
    ``checkpoint_storage`` says.

    Raises:
        InvalidHP: the trial raised it.
        TypeError: the entrypoint is no trial class.
    """
    experiment = parse_config(config)
    os.environ.update(experiment.environment.for_device("cuda" if _has_gpu() else "cpu"))
    _seed(experiment.seed)
    # relative paths in a trial's code are those of its folder, as on a cluster
    os.chdir(model_dir)
    trial_cls = in_context_api(_trial_class(experiment, model_dir))
    reports = _Reports(run_dir, report)
    path = run_dir / "tensorboard"
    with tensorboard_path_is(path):
        context = _context(experiment, config, reports.core_context(path))
        with contextlib.closing(context.distributed), _closed(context):
            trial = trial_cls(context)
            _fit(trial, context, experiment, validate_at, resume_from)
    reports.flush()
    if reports.early_exit is core.EarlyExitReason.INVALID_HP:
        raise InvalidHP("the trial raised InvalidHP while it wrote a checkpoint")


def _has_gpu() -> bool:
    return torch.cuda.is_available()


def _seed(seed: int | None) -> None:
    if seed is not None:
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)


def _trial_class(experiment: ExperimentConfig, model_dir: Path) -> Any:
    alias_determined()
    if str(model_dir) not in sys.path:
        sys.path.insert(0, str(model_dir))
    entrypoint = experiment.entrypoint
    if entrypoint is None or entrypoint.trial is None:
        raise TypeError("a search needs an entrypoint of the form module:TrialClass")
    module_name, _, name = entrypoint.trial.partition(":")
    found: Any = importlib.import_module(module_name)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _context(
    experiment: ExperimentConfig, config: dict[str, Any], core_context: core.Context
) -> PyTorchTrialContext:
    context = PyTorchTrialContext(
        core_context=core_context,
        trial_seed=experiment_seed(config),
        hparams=experiment.hyperparameters.constants(),
        slots_per_trial=1,
        num_gpus=torch.cuda.device_count(),
        # checkpoints keep it; what a trial may read of its own stays whole
        exp_conf={**without_secrets(config), "data": config.get("data", {})},
        aggregation_frequency=experiment.optimizations.aggregation_frequency,
        steps_completed=0,
        managed_training=True,
        debug_enabled=experiment.debug,
    )
    context.average_aggregated_gradients = experiment.optimizations.average_aggregated_gradients
    return context


@contextlib.contextmanager
def _closed(context: PyTorchTrialContext) -> Iterator[None]:
    try:
        yield
    finally:
        context.close_tensorboard_writer()


def _fit(
    trial: Any,
    context: PyTorchTrialContext,
    experiment: ExperimentConfig,
    validate_at: Sequence[Length],
    resume_from: str | None,
) -> None:
    size = experiment.global_batch_size
    length, periods = experiment.length, experiment.periods
    assert length is not None
    fit(
        trial,
        context,
        max_length=_unit(length.period(size)),
        validation_period=Batch(_Validations(context, experiment, validate_at)),
        checkpoint_period=_unit(periods.checkpoint.period(size)),
        reporting_period=_unit(periods.report.period(size)),
        checkpoint_policy="all",
        latest_checkpoint=resume_from,
        step_zero_validation=periods.initial_validation,
        test_mode=False,
    )


def _unit(period: Period) -> TrainUnit:
    return Epoch(period.n) if period.unit is Unit.EPOCHS else Batch(period.n)


class _Validations(Container[int]):
    """The batches after which a trial validates: those of its config, and those of the rungs."""

    def __init__(
        self,
        context: PyTorchTrialContext,
        experiment: ExperimentConfig,
        validate_at: Sequence[Length],
    ) -> None:
        self._context = context
        self._experiment = experiment
        self._validate_at = validate_at
        self._rungs: frozenset[int] = frozenset()

    def __contains__(self, batches: object) -> bool:
        if not self._rungs:
            self._rungs = frozenset(map(self._batches, self._validate_at))
        return batches in self._rungs or self._is_due(batches)

    def _batches(self, length: Length) -> int:
        size = self._experiment.global_batch_size
        return length.batches(size, epoch_batches=self._context._epoch_length())

    def _is_due(self, batches: Any) -> bool:
        period = self._experiment.periods.validation.period(self._experiment.global_batch_size)
        in_epochs = period.unit is Unit.EPOCHS and not period.is_never
        step = period.n * self._context._epoch_length() if in_epochs else period.n
        return bool(batches % step == 0)


class _Reports:
    """Passes each validation on to the search once its checkpoint is complete."""

    def __init__(self, run_dir: Path, report: ReportFunction) -> None:
        self._checkpoints = run_dir / "checkpoints"
        self._report = report
        self._validation: tuple[int, dict[str, Any]] | None = None
        self.early_exit: core.EarlyExitReason | None = None

    def core_context(self, tensorboard_path: Path) -> core.Context:
        return core.Context(
            checkpoint=_ReportedCheckpoints(self._checkpoints, self),
            train=_ReportedMetrics(tensorboard_path, self),
        )

    def validated(self, batches: int, metrics: dict[str, Any]) -> None:
        self.flush()
        self._validation = batches, metrics

    def flush(self, checkpoint: Path | None = None) -> None:
        """Report the last validation, if that has not been done."""
        validation, self._validation = self._validation, None
        if validation is not None:
            batches, metrics = validation
            self._report(batches, metrics, None if checkpoint is None else str(checkpoint))


class _ReportedMetrics(core.TrainContext):
    def __init__(self, tensorboard_path: Path, reports: _Reports) -> None:
        super().__init__(tensorboard_path)
        self._reports = reports

    def report_validation_metrics(self, steps_completed: int, metrics: dict[str, Any]) -> None:
        super().report_validation_metrics(steps_completed, metrics)
        plain = {name: _plain(value) for name, value in metrics.items()}
        self._reports.validated(steps_completed, plain)

    def report_early_exit(self, reason: core.EarlyExitReason) -> None:
        super().report_early_exit(reason)
        self._reports.early_exit = reason


class _ReportedCheckpoints(core.CheckpointContext):
    def __init__(self, base_path: Path, reports: _Reports) -> None:
        super().__init__(base_path)
        self._reports = reports

    @contextlib.contextmanager
    def store_path(self, metadata: dict[str, Any]) -> Iterator[tuple[Path, str]]:
        with super().store_path(metadata) as (path, uuid):
            yield path, uuid
        self._reports.flush(path)


def _plain(value: Any) -> Any:
    """A NumPy scalar or array of one number as a number."""
    return value.item() if getattr(value, "size", None) == 1 else value

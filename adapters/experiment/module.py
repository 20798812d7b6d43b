"""A trial that is trained as an experiment config says."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pytorch_lightning.strategies import DDPStrategy
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel

from det_compat import core
from det_compat.adapters.checkpoints.checkpoint_keeper import checkpoint_keeper
from det_compat.adapters.checkpoints.resumption import state_of
from det_compat.adapters.data.loaders import TrainingBatches
from det_compat.adapters.experiment.schedule import (
    Overrides,
    as_train_units,
    planned,
    take_over_schedule,
)
from det_compat.adapters.lightning.precision import asked_by_trial
from det_compat.adapters.lightning.scheduled import ScheduledHooks
from det_compat.adapters.lightning.strategy import log_often_enough
from det_compat.adapters.module import TrialModule
from det_compat.checkpoint.reader import read_checkpoint
from det_compat.checkpoint.trust import trusts_checkpoints
from det_compat.config.experiment import ExperimentConfig
from det_compat.config.periods import ResolvedPeriods
from det_compat.fit.checkpoints import RunCheckpoints, checkpoints_of
from det_compat.fit.errors import FitError
from det_compat.fit.run_start import RunStart

Functions = tuple[Callable[..., Any] | None, Callable[..., Any] | None]


class ExperimentModule(ScheduledHooks, TrialModule):
    """Trains a trial on the schedule of its experiment config, in a run directory.

    Checkpoints are written in Determined's layout, and kept, as the config says. The trial is
    built and trained with ``model_dir`` as working directory, as on a cluster. Options of the
    Trainer that say how long to train, or how often to validate, go before the config.

    Args:
        experiment: the config; all hyperparameters are constants.
        trial_cls: the trial class.
        model_dir: where the trial finds its files.
        place: the run's directory, seed and checkpoint; on rank 0, which tells the others.
        functions: the functions of PEDL's ``entrypoints`` that load and download data.
    """

    def __init__(
        self,
        experiment: ExperimentConfig,
        trial_cls: type,
        model_dir: Path,
        place: RunStart | None,
        functions: Functions = (None, None),
    ) -> None:
        self.experiment = experiment
        self.place = place
        self._model_dir = model_dir.resolve()
        self._started_in: str | None = None
        self._loader_functions = functions
        #: Each validation of this run: batches trained, and the metrics.
        self.validations: list[tuple[int, dict[str, Any]]] = []
        self.plan: ResolvedPeriods | None = None
        self._overrides = Overrides()
        super().__init__(
            trial_cls,
            experiment.hyperparameters.constants(),
            experiment.raw,
        )
        # the report logs what there is of it to see
        self._log_hyperparams = False

    def run_place(self) -> RunStart:
        """Where the run is.

        Raises:
            RuntimeError: the Trainer has not set it up yet.
        """
        if self.place is None:
            raise RuntimeError("the run directory is known when the Trainer has set up its ranks")
        return self.place

    @property
    def checkpoints(self) -> RunCheckpoints:
        """The run's checkpoints."""
        found = self.context._core.checkpoint
        assert isinstance(found, RunCheckpoints)
        return found

    # Before and after

    def setup(self, stage: str) -> None:
        self.place = self.trainer.strategy.broadcast(self.place)
        self._arguments["exp_conf"] = self._exp_conf()
        self._started_in = os.getcwd()
        os.chdir(self._model_dir)
        super().setup(stage)
        if self.experiment.optimizations.gradient_compression:
            self._compress_gradients()

    def _exp_conf(self) -> dict[str, Any]:
        config = _seeded(self.experiment.raw, self.run_place().seed)
        if self.trainer.precision != "32-true":
            # --trainer.precision goes before the config
            config["optimizations"] = {**config["optimizations"], "mixed_precision": "O0"}
        return config

    def end_run(self, exception: BaseException | None = None) -> None:
        try:
            super().end_run(exception)
        finally:
            if self._started_in is not None:
                os.chdir(self._started_in)

    def _build(
        self, distributed: core.DistributedContext, device: torch.device, ddp: dict[str, Any]
    ) -> None:
        seed_trial(self.run_place().seed)
        super()._build(distributed, device, ddp)
        level = self.experiment.optimizations.mixed_precision
        if level != "O0" and asked_by_trial(self.context) is None and self._has_no_precision():
            self.context.configure_apex_amp(
                self.context.models, self.context.optimizers, opt_level=level
            )

    def _has_no_precision(self) -> bool:
        return self.trainer.precision == "32-true" and bool(self.context.optimizers)

    def _checkpoints(self) -> core.CheckpointContext:
        return checkpoints_of(self.experiment.checkpoint_storage, self.run_place().folder)

    def _tensorboard_path(self) -> Path:
        if self.trainer.loggers and self.trainer.log_dir:
            return Path(self.trainer.log_dir)
        return self.run_place().folder.tensorboard

    def _compress_gradients(self) -> None:
        strategy = self.trainer.strategy
        if isinstance(strategy, DDPStrategy) and strategy._ddp_comm_hook is not None:
            return
        for model in self.context.models:
            if isinstance(model, DistributedDataParallel):
                model.register_comm_hook(None, fp16_compress_hook)

    # Schedule

    def on_fit_start(self) -> None:
        self._overrides = take_over_schedule(self.trainer)
        if (latest := self.run_place().latest_checkpoint) is not None:
            directory = self.checkpoints.find(latest)
            self._restored = state_of(read_checkpoint(directory, trust=trusts_checkpoints()))
        super().on_fit_start()
        log_often_enough(self.trainer, self.run.epoch_len)

    def started_from(self) -> str | None:
        return self.run_place().latest_checkpoint or super().started_from()

    def train_dataloader(self) -> TrainingBatches:
        batches = super().train_dataloader()
        self.plan = planned(
            self.experiment,
            self._overrides,
            epoch_batches=self.run.epoch_len,
            slots=self.context.distributed.size,
        )
        self.follow(
            as_train_units(self.plan),
            checkpoint_keeper(
                self.context, self.plan.checkpoint_policy, owns_start=self.run_place().resumes
            ),
            validates_first=self.plan.initial_validation,
        )
        return batches

    def after_validation(self, metrics: dict[str, Any]) -> None:
        self.validations.append((self.run.state.batches_trained, metrics))
        self._check_metric(metrics)
        super().after_validation(metrics)

    def _check_metric(self, metrics: dict[str, Any]) -> None:
        metric = self.experiment.searcher.metric
        if metric is not None and metric not in metrics:
            names = ", ".join(sorted(set(map(str, metrics)) - {"batches", "epochs"}))
            raise FitError(
                f"searcher.metric is {metric!r}, and the trial's validation metrics are "
                f"{names or 'none'}: set searcher.metric to one of them"
            )

    def on_train_end(self) -> None:
        # a callback of Lightning's may have stopped the run before its end
        if not self.run.is_stopping and not self._checkpoint_is_current():
            self._checkpoint(stopping=True)
        super().on_train_end()

    def best_checkpoint(self) -> str | None:
        """The path or URL of the best checkpoint that is kept, on rank 0."""
        best = self._keeper.best()
        return None if best is None else self.checkpoints.location(best)

    def latest_checkpoint(self) -> str | None:
        """The path or URL of the last checkpoint that was written."""
        latest = self._keeper.latest
        return None if latest is None else self.checkpoints.location(latest)


def seed_trial(seed: int) -> None:
    """Seed all random number generators, alike on all ranks, as Determined 0.38.1 does."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def _seeded(config: dict[str, Any], seed: int) -> dict[str, Any]:
    given = config.get("reproducibility") or {}
    return {**config, "reproducibility": {**given, "experiment_seed": seed}}

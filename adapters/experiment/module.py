"""A run of an experiment config: where its trial comes from, and what its pace is."""

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

from det_compat.adapters.checkpoints.checkpoint_keeper import checkpoint_keeper, not_validated
from det_compat.adapters.checkpoints.resume import Resume
from det_compat.adapters.experiment.machines import Machines, brought, machines_of
from det_compat.adapters.experiment.trainer import (
    Overrides,
    as_train_units,
    planned,
    take_over_schedule,
)
from det_compat.adapters.generations.adapted import NO_FUNCTIONS, LoaderFunctions
from det_compat.adapters.generations.entry import trial_of
from det_compat.adapters.generations.generation import check_trial_class
from det_compat.adapters.generations.trial_class import defines
from det_compat.adapters.lightning import determined_pace, run_module, sources
from det_compat.adapters.lightning.package import pl
from det_compat.adapters.run.trial_run import TrialRun
from det_compat.alias import alias_determined
from det_compat.config.entrypoint import Entrypoint, EntrypointKind
from det_compat.config.experiment import ExperimentConfig
from det_compat.config.hyperparameters import batch_size
from det_compat.config.lengths import Length
from det_compat.config.periods import ResolvedPeriods
from det_compat.config.shims import with_seed
from det_compat.core.reports.kept import RunReports
from det_compat.experiment.checkpoints import RunCheckpoints, checkpoints_of
from det_compat.experiment.errors import FitError
from det_compat.experiment.run_start import RunStart
from det_compat.experiment.task import task_of
from det_compat.pytorch.schedule import Due, Schedule
from det_compat.pytorch.train_unit import Batch
from det_compat.script.task import current_task, tell
from det_compat.search.searchers.validations import RungsToo
from det_compat.shared.importing import NoSuchName, imported


class ExperimentRun(sources.Source):
    """Trains a trial on the schedule of its experiment config, in a run directory.

    Checkpoints are written in Determined's layout, and kept, as the config says. The trial is
    built and trained with ``model_dir`` as working directory, as on a cluster. Options of the
    Trainer that say how long to train, or how often to validate, go before the config.

    Args:
        experiment: the config; all hyperparameters are constants.
        trial_cls: the trial class.
        model_dir: where the trial finds its files.
        start: the run's directory, seed and checkpoint; on rank 0, which tells the others.
        functions: the functions of PEDL's ``entrypoints`` that load and download data.
        rungs: lengths at which a search wants a validation beside the config's; None where no
            search runs the trial.

    Attributes:
        module: what a Trainer fits.
        pace: when it reports, validates and writes checkpoints.
        plan: the lengths and periods in batches, when training has started.
        validations: the batches trained and the metrics, for each validation of this run.
    """

    def __init__(
        self,
        experiment: ExperimentConfig,
        trial_cls: type,
        model_dir: Path,
        start: RunStart | None,
        functions: LoaderFunctions = NO_FUNCTIONS,
        rungs: Sequence[Length] | None = None,
    ) -> None:
        self.experiment = experiment
        self._start = start
        self._has_seen_folder = False
        self.plan: ResolvedPeriods | None = None
        self.validations: list[tuple[int, dict[str, Any]]] = []
        self._model_dir = model_dir.resolve()
        self._started_in: str | None = None
        self._machines: Machines | None = None
        self._rungs = rungs
        self._overrides = Overrides()
        compresses = experiment.optimizations.gradient_compression
        self._trial = sources.TrialClass(
            sources.TrialArguments(
                trial_cls,
                experiment.hyperparameters.constants(),
                experiment.raw,
                experiment.optimizations.aggregation_frequency,
                functions=functions,
                comm_hook=fp16_compress_hook if compresses else None,
            )
        )
        self.pace = determined_pace.DeterminedPace(self._planned, self._take_over)
        self.pace.on_validated.append(self._note_validation)
        self.module = run_module.RunModule(self, self.pace)
        # ExperimentReport logs the hyperparameters, without secrets.
        self.module.save_hyperparameters(self._trial.arguments.saved(), logger=False)

    @property
    def start(self) -> RunStart:
        """The run's directory, its seed, and the checkpoint that it goes on from.

        Raises:
            RuntimeError: the Trainer has not set it up yet.
        """
        if self._start is None:
            raise RuntimeError("the run directory is known when the Trainer has set up its ranks")
        return self._start

    @property
    def has_lost_its_folder(self) -> bool:
        """Whether the run's directory was there and is no more, or not that of the run.

        It never was on a machine that has no disk in common with that of rank 0. What is written
        into it, such as a checkpoint, may make it anew.
        """
        return self._has_seen_folder and not self.start.folder.holds_run

    @property
    def checkpoints(self) -> RunCheckpoints:
        """The run's checkpoints."""
        found = self._trial.arguments.checkpoints
        assert isinstance(found, RunCheckpoints)
        return found

    def best_checkpoint(self) -> str | None:
        """The path or URL of the best checkpoint that is kept, on rank 0."""
        best = self.pace.keeper.best()
        return None if best is None else self.checkpoints.location(best)

    def latest_checkpoint(self) -> str | None:
        """The path or URL of the last checkpoint that was written."""
        latest = self.pace.keeper.latest
        return None if latest is None else self.checkpoints.location(latest)

    # Where the trial comes from

    def provide(self, trainer: pl.Trainer | None, built: TrialRun | None) -> TrialRun:
        if trainer is None:
            return self._trial.provide(None, built)
        self._start = trainer.strategy.broadcast(self._start)
        start = self.start
        self._has_seen_folder = start.folder.holds_run
        self._started_in = os.getcwd()
        os.chdir(self._model_dir)
        given = self._trial.arguments
        given.exp_conf = self._exp_conf(trainer, start.seed)
        given.seed = start.seed
        given.checkpoints = checkpoints_of(self.experiment.checkpoint_storage, start.folder)
        self._meet(trainer)
        self._tell(trainer.world_size, given.exp_conf)
        given.tensorboard = start.folder.tensorboard
        run = self._trial.provide(trainer, built)
        if run is not built:
            self._set_up_precision(trainer, run)
        if trainer.training and run.is_chief:
            path = run.steering.core.train.get_tensorboard_path()
            run.steering.core.train = RunReports(start.folder.path, path)
        return run

    def _meet(self, trainer: pl.Trainer) -> None:
        """Find the other machines, and out whether they see this run's checkpoints."""
        self._machines = found = machines_of(trainer, self.checkpoints)
        if found is not None and found.blind and trainer.is_global_zero and trainer.training:
            found.warn(str(self.checkpoints.base_path))

    def _tell(self, slots: int, exp_conf: dict[str, Any]) -> None:
        """Let this process know how the run begins, which only rank 0 knew until now."""
        if (known := current_task()) is not None:
            told = {"trial_id": known.trial_id, "attempt": known.attempt}
            found = task_of(self.experiment, self.start, slots=slots, exp_conf=exp_conf, **told)
            addresses = [] if self._machines is None else self._machines.addresses
            tell(replace(found, addresses=addresses))

    def _exp_conf(self, trainer: pl.Trainer, seed: int) -> dict[str, Any]:
        config = with_seed(self.experiment.raw, seed)
        if trainer.precision != "32-true":
            # What --trainer.precision says goes before the config.
            config["optimizations"] = {**config["optimizations"], "mixed_precision": "O0"}
        return config

    def _set_up_precision(self, trainer: pl.Trainer, run: TrialRun) -> None:
        level, context = self.experiment.optimizations.mixed_precision, run.context
        has_none = trainer.precision == "32-true" and run.steering.mixed_precision_call is None
        if level != "O0" and has_none and context.optimizers:
            context.configure_apex_amp(context.models, context.optimizers, opt_level=level)

    def started_from(self) -> str | None:
        return self.start.latest_checkpoint

    def fit_starts(self, run: TrialRun) -> Resume | None:
        self._trial.fit_starts(run)
        given, machines = self.started_from(), self._machines
        if given is None or machines is None or not machines.blind:
            return super().fit_starts(run)
        found = None if machines.is_blind else self.checkpoints.find(given)
        path = brought(run.context.distributed, found, is_blind=machines.is_blind)
        return Resume.of_directory(run, path)

    def release(self) -> None:
        if self._started_in is not None:
            os.chdir(self._started_in)

    # What the pace is

    def _take_over(self, trainer: pl.Trainer) -> None:
        self._overrides = take_over_schedule(trainer)

    def _planned(self, run: TrialRun) -> determined_pace.Plan:
        slots = run.context.distributed.size
        self.plan = planned(
            self.experiment, self._overrides, epoch_batches=run.epoch_batches, slots=slots
        )
        units = as_train_units(self.plan)
        if self._rungs is not None:
            size = batch_size(self.experiment.hyperparameters.constants(), slots)
            own = units[Due.VALIDATION]
            records = self.experiment.periods.records_per_epoch
            validations = RungsToo(own, self._rungs, size, lambda: run.epoch_batches, records)
            units[Due.VALIDATION] = Batch(validations)
        policy = self.plan.checkpoint_policy
        keeper = checkpoint_keeper(run.context, policy, owns_start=self.start.resumes)
        validates_first, is_searched = self.plan.initial_validation, self._rungs is not None
        return determined_pace.Plan(Schedule(units), keeper, validates_first, is_searched)

    def _note_validation(self, batches: int, metrics: dict[str, Any]) -> None:
        self.validations.append((batches, metrics))
        metric = self.experiment.searcher.metric
        if metric is not None and metric not in metrics:
            raise FitError(not_validated(metric, metrics))


def imported_trial(config: ExperimentConfig, model_dir: Path) -> tuple[type, LoaderFunctions]:
    """The trial class of ``config`` and PEDL's loader functions, imported from ``model_dir``.

    Raises:
        FitError: there is no such module or class.
    """
    entrypoint = config.entrypoint or Entrypoint(EntrypointKind.TRIAL)
    if entrypoint.is_command:
        raise FitError("the config's entrypoint is no trial class, module:TrialClass")
    alias_determined()
    model_dir = model_dir.resolve()
    if str(model_dir) not in sys.path:
        sys.path.insert(0, str(model_dir))
    with _working_in(model_dir):
        found = NO_FUNCTIONS
        if entrypoint.trial is None:
            trial_cls, found = _from_package(model_dir)
        else:
            trial_cls = _imported(entrypoint.trial, model_dir)
        if defines(trial_cls, "build_training_data_loader"):
            # A trial that has been brought into the context API asks PEDL's functions itself.
            functions = NO_FUNCTIONS
        else:
            named = _functions(entrypoint.functions, model_dir)
            functions = LoaderFunctions(
                *(own or other for own, other in zip(named, found, strict=True))
            )
    try:
        check_trial_class(trial_cls)
    except TypeError as error:
        where = entrypoint.trial or model_dir / "__init__.py"
        raise FitError(f"entrypoint {where}: {error}") from error
    return trial_cls, functions


def _from_package(model_dir: Path) -> tuple[type, LoaderFunctions]:
    try:
        return trial_of(model_dir)
    except LookupError as error:
        raise FitError(str(error)) from error


@contextlib.contextmanager
def _working_in(folder: Path) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


def _imported(path: str, model_dir: Path) -> Any:
    try:
        return imported(path)
    except NoSuchName as error:
        remedy = ""
        if error.name is not None:
            remedy = f" in {model_dir.resolve()}; name its folder after the config, as MODEL_DIR"
        raise FitError(f"entrypoint {path}: {error}{remedy}") from error


def _functions(functions: dict[str, str], model_dir: Path) -> LoaderFunctions:
    def named(*names: str) -> Any:
        path = next((functions[name] for name in names if name in functions), None)
        return None if path is None else _imported(path, model_dir)

    return LoaderFunctions(
        named("data_loaders_function", "make_data_loaders"),
        named("download_data_function", "download_data"),
    )

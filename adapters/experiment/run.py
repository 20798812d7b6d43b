"""One experiment config, run from Python."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytorch_lightning as pl

from det_compat.adapters.experiment.module import ExperimentRun
from det_compat.adapters.experiment.report import ExperimentReport, ExperimentResult
from det_compat.adapters.experiment.trainer import default_logger, profiler_of, trainer_flags
from det_compat.adapters.lightning.sources import LoaderFunctions
from det_compat.adapters.run.checks import check_trial_class
from det_compat.alias import alias_determined
from det_compat.config.experiment import ExperimentConfig, parse_config
from det_compat.fit.errors import FitError
from det_compat.fit.run_folder import RunFolder
from det_compat.fit.run_start import begin_in
from det_compat.shared.importing import NoSuchName, imported


def run_experiment(
    config: ExperimentConfig,
    run_dir: str | Path,
    *,
    model_dir: str | Path | None = None,
    resume_from: str | None = None,
    callbacks: Sequence[pl.Callback] = (),
    **flags: Any,
) -> ExperimentResult:
    """Train the trial class of an experiment config, as ``det-compat fit`` does.

    Args:
        config: the config; all hyperparameters are constants.
        run_dir: where results go; a run that has been started there goes on if ``resume_from``
            says so.
        model_dir: where the entrypoint is imported from; by default the config's folder.
        resume_from: ``"latest"``, or the UUID, path or URL of a checkpoint.
        callbacks: of Lightning.
        **flags: of ``pl.Trainer``, in start of what the config says.

    Raises:
        FitError: there is something for the user to mend.
    """
    folder = RunFolder(run_dir)
    start = begin_in(folder, config, resume=resume_from == "latest")
    if resume_from not in (None, "latest"):
        start = replace(start, latest_checkpoint=resume_from)
    home = Path(model_dir or Path(config.file or ".").parent)
    trial_cls, functions = imported_trial(config, home)
    run = ExperimentRun(config, trial_cls, home, start, functions)
    report = ExperimentReport(run)
    chosen = {
        "logger": default_logger(folder),
        "profiler": profiler_of(config.profiling, folder),
        **trainer_flags(config),
        **flags,
    }
    trainer = pl.Trainer(**chosen, callbacks=[*callbacks, report])
    trainer.fit(run.module)
    return report.result()


def imported_trial(config: ExperimentConfig, model_dir: Path) -> tuple[type, LoaderFunctions]:
    """The trial class of ``config`` and PEDL's loader functions, imported from ``model_dir``.

    Raises:
        FitError: there is no such module or class.
    """
    entrypoint = config.entrypoint
    if entrypoint is None or entrypoint.trial is None:
        raise FitError("the config's entrypoint is no trial class, module:TrialClass")
    alias_determined()
    model_dir = model_dir.resolve()
    if str(model_dir) not in sys.path:
        sys.path.insert(0, str(model_dir))
    with _working_in(model_dir):
        trial_cls = _imported(entrypoint.trial, model_dir)
        functions = _functions(entrypoint.functions, model_dir)
    try:
        check_trial_class(trial_cls)
    except TypeError as error:
        raise FitError(f"entrypoint {entrypoint.trial}: {error}") from error
    return trial_cls, functions


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

    return (
        named("data_loaders_function", "make_data_loaders"),
        named("download_data_function", "download_data"),
    )


def with_changes(
    config: ExperimentConfig,
    trial_cls: str | None = None,
    hparams: dict[str, Any] | None = None,
    aggregation_frequency: int | None = None,
    seed: int | None = None,
) -> ExperimentConfig:
    """What of an experiment config can be given as an option.

    Args:
        config: the config, which stays as it is.
        trial_cls: the trial class, ``module:Class``.
        hparams: the trial's hyperparameters.
        aggregation_frequency: batches over which gradients are accumulated.
        seed: the seed of the experiment.

    Returns:
        The config with what was given in start of its own.

    Raises:
        ConfigError: it would not be valid.
    """
    given = dict(config.given)
    entrypoint = config.entrypoint
    if trial_cls is not None and entrypoint is not None and trial_cls != entrypoint.trial:
        given["entrypoint"] = trial_cls
        given.pop("entrypoints", None)
    if hparams is not None and hparams != config.hyperparameters.constants():
        given["hyperparameters"] = {name: _constant(value) for name, value in hparams.items()}
    if aggregation_frequency not in (None, config.optimizations.aggregation_frequency):
        optimizations = given.get("optimizations", {})
        given["optimizations"] = {**optimizations, "aggregation_frequency": aggregation_frequency}
    if seed not in (None, config.seed):
        given["reproducibility"] = {"experiment_seed": seed}
    if given == config.given:
        return config
    changed = parse_config(given)
    return replace(changed, file=config.file, max_restarts=config.max_restarts)


def _constant(value: Any) -> Any:
    if isinstance(value, dict) and value:
        return {name: _constant(item) for name, item in value.items()}
    return {"type": "const", "val": value}

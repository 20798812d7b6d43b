"""``det-compat fit`` and ``validate``: Lightning's options, with the experiment config as defaults.

The options are those of LightningCLI (of Lightning 2.6.6) without optimizers and schedulers, which
are the trial's own. LightningCLI itself seeds, builds the module and chooses the Trainer's logger
before an experiment has its run directory, so it is jsonargparse that parses here.
"""

import contextlib
import logging
import math
import os
import signal
import threading
import traceback
from collections.abc import Iterator
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import yaml
from jsonargparse import (  # type: ignore[attr-defined]  # it fills __all__ while it is imported
    ActionConfigFile,
    Namespace,
)
from jsonargparse.typing import register_type

from det_compat import LOG_FORMAT, errors
from det_compat.adapters.experiment.module import ExperimentRun, imported_trial
from det_compat.adapters.experiment.report import ExperimentReport
from det_compat.adapters.experiment.trainer import (
    check_devices,
    default_logger,
    profiler_of,
    trainer_flags,
)
from det_compat.adapters.generations.adapted import LoaderFunctions
from det_compat.adapters.jsonargparse_types import plain, to_write
from det_compat.adapters.lightning.package import (
    MODULE,
    PACKAGE,
    VERSION,
    MisconfigurationException,
    pl,
)
from det_compat.adapters.lightning.preemption import Interruption
from det_compat.adapters.lightning.strategy import callbacks_of, end_other_ranks, new_trainer
from det_compat.adapters.module import TrialModule
from det_compat.config.experiment import ExperimentConfig, parse_config
from det_compat.fit import hyperparameters
from det_compat.fit.checkpoints import checkpoints_of, earlier_one_named
from det_compat.fit.environment import is_chief
from det_compat.fit.errors import FitError
from det_compat.fit.request import ABOUT, OWN, USAGE, Request
from det_compat.fit.run_start import RunStart, begin, run_to_validate
from det_compat.fit.task import task_of
from det_compat.script.task import told
from det_compat.shared.masking import without_secrets

if TYPE_CHECKING:
    from pytorch_lightning.cli import LightningArgumentParser
else:
    LightningArgumentParser = import_module(f"{MODULE}.cli").LightningArgumentParser

_NOT_OF_METHOD = {"config", "seed_everything", "trainer", "model", "data"}
_DATA = {"train_dataloaders", "val_dataloaders", "dataloaders", "datamodule"}
_INTERRUPTED = 128 + signal.SIGINT
_PRINT = "--print_config"
_PATHS = ("ckpt_path", "default_root_dir", "dirpath", "root_dir", "save_dir")


def run_cli(request: Request, experiment: ExperimentConfig | None) -> None:
    """Parse Lightning's options, and fit or validate.

    Raises:
        FitError: there is something for the user to mend.
        SystemExit: options are wrong, help was asked for, or the run was told to end.
    """
    try:
        if experiment is None:
            _run_trial_class(request)
        else:
            _run_experiment(request, experiment)
    except SystemExit as ended:
        # Lightning 2.6.6 exits with status 1 after Ctrl-C.
        if isinstance(ended.__context__, KeyboardInterrupt):
            raise SystemExit(_INTERRUPTED) from None
        raise
    except (errors.InvalidExperimentException, errors.InvalidCheckpointException) as error:
        if _is_from(request.model_dir, error):
            raise
        raise FitError(str(error)) from error
    except errors.CheckpointWriteError as error:
        raise FitError(str(error)) from error
    except errors.InvalidHP as error:
        raise FitError(f"the trial refuses its hyperparameters: InvalidHP({error})") from error


def _is_from(folder: Path, error: BaseException) -> bool:
    """Whether code in ``folder`` has a part in ``error``, or in what caused it."""
    frames = traceback.extract_tb(error.__traceback__)
    if any(folder.resolve() in Path(frame.filename).resolve().parents for frame in frames):
        return True
    return error.__cause__ is not None and _is_from(folder, error.__cause__)


def _parser(request: Request, experiment: ExperimentConfig | None) -> LightningArgumentParser:
    """The options of Trainer, module and data, and of the Trainer's method, without defaults."""
    command = request.command
    parser = LightningArgumentParser(
        prog=f"det-compat {command}",
        usage=USAGE.format(command=command),
        description=f"{ABOUT[command]}\n\n{OWN}",
        dump_header=[f"{PACKAGE}=={VERSION}"],
    )
    about = "Path to a configuration file in json or yaml format."
    parser.add_argument("-c", "--config", action=ActionConfigFile, help=about)
    about = (
        "Set to an int to seed everything with it before classes are instantiated; True draws one."
    )
    parser.add_argument("--seed_everything", type=bool | int, default=False, help=about)
    parser.add_lightning_class_args(pl.Trainer, "trainer")
    if experiment is None:
        parser.add_lightning_class_args(TrialModule, "model")
    else:
        parser.add_function_arguments(
            with_changes, "model", skip={"config", "hparams", "seed"}, fail_untyped=False
        )
        about = "The trial's hyperparameters, over those of the config."
        parser.add_argument("--model.hparams", type=_Hyperparameters, enable_path=True, help=about)
    data = pl.LightningDataModule
    parser.add_lightning_class_args(data, "data", subclass_mode=True, required=False)
    parser.add_method_arguments(pl.Trainer, command, skip={"model", *_DATA})
    return parser


def _defaults(experiment: ExperimentConfig) -> dict[str, Any]:
    entrypoint = experiment.entrypoint
    return {
        "model.trial_cls": None if entrypoint is None else entrypoint.trial,
        "model.hparams": _Hyperparameters(experiment.hyperparameters.constants()),
        "model.aggregation_frequency": experiment.optimizations.aggregation_frequency,
        "seed_everything": False if experiment.seed is None else experiment.seed,
        **{f"trainer.{name}": value for name, value in trainer_flags(experiment).items()},
    }


class _Hyperparameters:
    """Hyperparameters that jsonargparse passes on and does not look into."""

    def __init__(self, values: Any) -> None:
        if not isinstance(values, dict):
            raise ValueError("expected a mapping")
        self.values: dict[str, Any] = values


register_type(_Hyperparameters, lambda hparams: to_write(hparams.values))


def _parsed(
    parser: LightningArgumentParser, request: Request, constants: dict[str, Any] | None = None
) -> Namespace:
    """The options. Typed hyperparameters go over those of files, and these over the config's.

    Args:
        parser: the parser.
        request: what was asked for.
        constants: the hyperparameters of the config; None without one.

    Raises:
        FitError: a typed hyperparameter is none.
        SystemExit: options are wrong, or they were to be shown.
    """
    words, typed = hyperparameters.take_out(request.options)
    parsed = [word for word in words if word.partition("=")[0] != _PRINT]
    options = parser.parse_args(parsed)
    given = options.model.hparams
    values = given.values if isinstance(given, _Hyperparameters) else plain(given)
    if typed or constants or values:
        values = hyperparameters.merged(constants or {}, values or {})
        values = hyperparameters.with_typed(values, typed)
    if parsed != words:
        flow = yaml.safe_dump(to_write(values), default_flow_style=True, width=math.inf)
        parser.parse_args([*words, hyperparameters.OPTION, flow])
    options.model.hparams = values if constants is None else _Hyperparameters(values)
    return options


def _trainer(flags: Namespace) -> pl.Trainer:
    try:
        return new_trainer(**vars(flags))
    except (MisconfigurationException, TypeError, ValueError) as error:
        raise FitError(f"the Trainer does not take its options: {error}") from error


def _method_arguments(options: Namespace) -> dict[str, Any]:
    """The arguments of ``Trainer.fit`` or ``Trainer.validate`` beside the module."""
    others = {name: value for name, value in vars(options).items() if name not in _NOT_OF_METHOD}
    return {**others, "datamodule": options.data}


def _run_trial_class(request: Request) -> None:
    parser = _parser(request, None)
    options = _as_saved(parser, _parsed(parser, request))
    seed = options.seed_everything
    if seed is not False:
        pl.seed_everything(None if seed is True else seed, workers=True)
    found = parser.instantiate_classes(options)
    run = getattr(_trainer(found.trainer), request.command)
    run(found.model, **_method_arguments(found))


def _as_saved(parser: LightningArgumentParser, options: Namespace) -> Namespace:
    """The options, with the module's arguments as the file at ``ckpt_path`` has them.

    LightningCLI of Lightning 2.6.6 does the same.
    """
    path = options.ckpt_path
    if path is None or not Path(path).is_file():
        return options
    saved = torch.load(path, weights_only=True, map_location="cpu").get("hyper_parameters")
    return parser.parse_object({"model": saved}, options) if saved else options


def _run_experiment(request: Request, experiment: ExperimentConfig) -> None:
    parser = _parser(request, experiment)
    parser.set_defaults(_defaults(experiment))
    options = _parsed(parser, request, experiment.hyperparameters.constants())
    make_paths_absolute(options)
    # This process draws nothing before the trial is built, which seeds it.
    seed = None if isinstance(options.seed_everything, bool) else options.seed_everything
    changes = {**vars(options.model), "hparams": options.model.hparams.values}
    experiment = with_changes(experiment, **changes, seed=seed)
    check_devices(experiment, options.trainer.devices, request.again())
    _set_up_logging(experiment)
    fits, start = request.command == "fit", None
    if not fits:
        start = run_to_validate(request, experiment)
    elif is_chief():
        start = begin(request, experiment)
    with told(task_of(experiment, start)):
        trial_cls, functions = _imported(request, experiment, start)
        run = ExperimentRun(experiment, trial_cls, request.model_dir, start, functions)
        if fits and start is not None:
            shown = without_secrets(yaml.safe_load(parser.dump(options, skip_none=False)))
            file = start.folder.path / "lightning.yaml"
            file.write_text(yaml.safe_dump(to_write(shown), sort_keys=False), "utf-8")
        with _damage_explained(request, run, start):
            _run(request, run, parser.instantiate_classes(options), start)


def _damage_explained(
    request: Request, run: ExperimentRun, start: RunStart | None
) -> contextlib.AbstractContextManager[None]:
    if start is None:
        return contextlib.nullcontext()
    storage, folder = run.experiment.checkpoint_storage, start.folder
    return earlier_one_named(
        start.latest_checkpoint,
        lambda: checkpoints_of(storage, folder),
        request.resuming(folder.path),
    )


def _imported(
    request: Request, experiment: ExperimentConfig, start: RunStart | None
) -> tuple[type, LoaderFunctions]:
    """The trial, which may ask how the run begins; a new run begins only if there is one."""
    try:
        return imported_trial(experiment, request.model_dir)
    except BaseException:
        if start is not None and not start.resumes:
            start.folder.give_up()
        raise


def _run(request: Request, run: ExperimentRun, found: Namespace, start: RunStart | None) -> None:
    fits, flags = request.command == "fit", found.trainer
    folder = None if start is None else start.folder
    if flags.logger is None or flags.logger is True:
        flags.logger = default_logger(folder) if fits else False
    if flags.profiler is None:
        flags.profiler = profiler_of(run.experiment.profiling, folder)
    trainer, arguments = _trainer(flags), _method_arguments(found)
    if fits:
        _fit(trainer, run, None if folder is None else request.resuming(folder.path), arguments)
    else:
        _validate(trainer, run, arguments)


def _fit(
    trainer: pl.Trainer, run: ExperimentRun, resuming: str | None, arguments: dict[str, Any]
) -> None:
    interruption = Interruption()
    report = ExperimentReport(run, resuming, interruption=interruption)
    callbacks_of(trainer).append(report)
    try:
        with interruption, _deletion_noticed(run):
            trainer.fit(run.module, **arguments)
    except BaseException as error:
        is_interrupted = interruption.has_come or isinstance(error.__context__, KeyboardInterrupt)
        if resuming and (is_interrupted or isinstance(error, SystemExit)):
            print(f"resume it by: {resuming}", flush=True)
        if is_interrupted:
            end_other_ranks(trainer)
            raise SystemExit(_INTERRUPTED) from None
        raise
    if trainer.is_global_zero:
        report.print_result()


@contextlib.contextmanager
def _deletion_noticed(run: ExperimentRun) -> Iterator[None]:
    """Say in one error that the run directory is gone, whoever could not write into it.

    Raises:
        FitError: it is gone.
    """
    say_in_thread = threading.excepthook

    def say(arguments: Any) -> None:
        if not run.has_lost_its_folder:
            say_in_thread(arguments)

    threading.excepthook = say
    try:
        yield
    except Exception as error:
        if not run.has_lost_its_folder:
            raise
        raise FitError(
            f"the run directory {run.start.folder.path} was deleted or moved while the run was "
            "writing into it: what was in it, with its checkpoints, is not there to go on from. "
            "Put it back and give --resume, or start again"
        ) from error
    finally:
        threading.excepthook = say_in_thread


def _validate(trainer: pl.Trainer, run: ExperimentRun, arguments: dict[str, Any]) -> None:
    start = run.start
    latest = start.latest_checkpoint
    if latest is not None and arguments["ckpt_path"] is None:
        checkpoints = checkpoints_of(run.experiment.checkpoint_storage, start.folder)
        arguments["ckpt_path"] = str(checkpoints.find(latest))
        print(f"validating checkpoint {latest}, after batch {start.steps_completed}")
    trainer.validate(run.module, **arguments)


def _set_up_logging(config: ExperimentConfig) -> None:
    """Log as a cluster did, but for the reports of metrics, which the progress bar shows."""
    logging.basicConfig(format=LOG_FORMAT, level=logging.DEBUG if config.debug else logging.INFO)
    if not config.debug:
        logging.getLogger("determined").setLevel(logging.WARNING)


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
        The config with what was given in place of its own.

    Raises:
        ConfigError: it would not be valid.
    """
    given = dict(config.given)
    own = None if config.entrypoint is None else config.entrypoint.trial
    if trial_cls is not None and trial_cls != own:
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


def make_paths_absolute(options: Any) -> None:
    """Make the directories and checkpoints that ``options`` name independent of where we are.

    The trial is trained in its MODEL_DIR, and relative paths mean the folder that the command was
    started in. Checkpoints that are no file or directory here, such as ``last``, and URLs stay as
    they are.
    """
    if isinstance(options, list):
        for item in options:
            make_paths_absolute(item)
    elif isinstance(options, (Namespace, dict)):
        names = vars(options) if isinstance(options, Namespace) else options
        for name, value in names.items():
            if name in _PATHS and isinstance(value, str):
                names[name] = os.path.abspath(value) if _is_path(name, value) else value
            else:
                make_paths_absolute(value)


def _is_path(name: str, value: str) -> bool:
    return os.path.exists(value) if name == "ckpt_path" else "://" not in value

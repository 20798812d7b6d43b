"""``det-compat fit`` and ``validate``: a run from its options to its results."""

import contextlib
import logging
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import yaml
from jsonargparse import Namespace

from det_compat import LOG_FORMAT, errors
from det_compat.adapters.experiment.module import ExperimentRun, imported_trial
from det_compat.adapters.experiment.options import (
    OptionsParser,
    config_defaults,
    make_paths_absolute,
    options_parser,
    parsed_options,
    with_changes,
)
from det_compat.adapters.experiment.report import ExperimentReport
from det_compat.adapters.experiment.trainer import check_devices, default_logger, profiler_of
from det_compat.adapters.generations.adapted import NO_FUNCTIONS, LoaderFunctions
from det_compat.adapters.jsonargparse_types import to_write
from det_compat.adapters.lightning.company import Company
from det_compat.adapters.lightning.package import MisconfigurationException, pl
from det_compat.adapters.lightning.preemption import Interruption
from det_compat.adapters.lightning.strategy import callbacks_of, end_other_ranks, new_trainer
from det_compat.config.experiment import ExperimentConfig
from det_compat.core.storage.write_failures import NO_ROOM
from det_compat.experiment.checkpoints import checkpoints_of, earlier_one_named
from det_compat.experiment.errors import FitError
from det_compat.experiment.processes.tracker import tracked
from det_compat.experiment.request import Request
from det_compat.experiment.run_start import RunStart, begin, run_to_validate
from det_compat.experiment.run_state import state_noted
from det_compat.experiment.task import task_of
from det_compat.script.ending import INTERRUPTED, TO_MEND
from det_compat.script.machines import is_chief
from det_compat.script.meeting import resume_by
from det_compat.script.run_log import run_logged
from det_compat.script.task import told
from det_compat.shared.durable_files import naming
from det_compat.shared.masking import without_secrets
from det_compat.shared.verbosity import shows_progress

_NOT_OF_METHOD = {"config", "seed_everything", "trainer", "model", "data"}


def run_cli(request: Request, experiment: ExperimentConfig | None) -> None:
    """Parse Lightning's options, and fit or validate.

    Raises:
        FitError: there is something for the user to mend.
        SystemExit: options are wrong, help was asked for, or the run was told to end.
    """
    with what_to_mend(request.model_dir):
        if experiment is None:
            _run_trial_class(request)
        else:
            _run_experiment(request, experiment)


@contextlib.contextmanager
def what_to_mend(model_dir: Path) -> Iterator[None]:
    """Let what ends a run say what the user has to mend, and how the process ends.

    Args:
        model_dir: where the user's own code is, whose errors stay as they are.

    Raises:
        FitError: there is something for the user to mend.
        SystemExit: the run was told to end.
    """
    try:
        yield
    except SystemExit as ended:
        # Lightning 2.6.6 exits with status 1 after Ctrl-C.
        if isinstance(ended.__context__, KeyboardInterrupt):
            raise SystemExit(INTERRUPTED) from None
        raise
    except (errors.InvalidExperimentException, errors.InvalidCheckpointException) as error:
        if getattr(error, "is_on_all_ranks", False) and not is_chief():
            raise SystemExit(TO_MEND) from None  # Rank 0 says what it is.
        if _is_from(model_dir, error):
            raise
        raise FitError(str(error)) from error
    except errors.CheckpointWriteError as error:
        raise FitError(str(error)) from error
    except errors.InvalidHP as error:
        raise FitError(f"the trial refuses its hyperparameters: InvalidHP({error})") from error


def _is_from(folder: Path, error: BaseException) -> bool:
    """Whether code in ``folder`` has a part in ``error``, or in what caused it.

    What is installed in an environment there is nobody's own.
    """
    folder = folder.resolve()
    for frame in traceback.extract_tb(error.__traceback__):
        path = Path(frame.filename).resolve()
        if path.is_relative_to(folder) and "site-packages" not in path.relative_to(folder).parts:
            return True
    return error.__cause__ is not None and _is_from(folder, error.__cause__)


def _trainer(flags: Namespace) -> pl.Trainer:
    try:
        return new_trainer(**vars(flags))
    except (MisconfigurationException, RuntimeError, TypeError, ValueError) as error:
        raise FitError(f"the Trainer does not take its options: {error}") from error


def _choose_bar(flags: Namespace, request: Request) -> None:
    """Show a bar where somebody sees it, unless the user has said whether, or which."""
    given = [flags.callbacks] if isinstance(flags.callbacks, pl.Callback) else flags.callbacks or []
    if flags.enable_progress_bar is None and not any(map(_is_bar, given)):
        flags.enable_progress_bar = shows_progress() and not request.quiet


def _is_bar(callback: Any) -> bool:
    """Whether it is a progress bar, without which ``enable_progress_bar=False`` is refused."""
    return isinstance(callback, pl.callbacks.ProgressBar)


def _method_arguments(options: Namespace) -> dict[str, Any]:
    """The arguments of ``Trainer.fit`` or ``Trainer.validate`` beside the module."""
    others = {name: value for name, value in vars(options).items() if name not in _NOT_OF_METHOD}
    return {**others, "datamodule": options.data}


def _run_trial_class(request: Request) -> None:
    parser = options_parser(request, None)
    options = _as_saved(parser, parsed_options(parser, request))
    seed = options.seed_everything
    if seed is not False:
        pl.seed_everything(None if seed is True else seed, workers=True)
    found = parser.instantiate_classes(options)
    _choose_bar(found.trainer, request)
    run = getattr(_trainer(found.trainer), request.command)
    run(found.model, **_method_arguments(found))


def _as_saved(parser: OptionsParser, options: Namespace) -> Namespace:
    """The options, with the module's arguments as the file at ``ckpt_path`` has them.

    LightningCLI of Lightning 2.6.6 does the same.
    """
    path = options.ckpt_path
    if path is None or not Path(path).is_file():
        return options
    saved = torch.load(path, weights_only=True, map_location="cpu").get("hyper_parameters")
    return parser.parse_object({"model": saved}, options) if saved else options


@dataclass(frozen=True)
class Given:
    """What a run is given beside its config.

    Attributes:
        make: returns the Trainer's flags and the arguments of its method, when the run has begun.
        written: what ``lightning.yaml`` in the run's folder says; None for no such file.
        trial_cls: the trial class, where it need not be imported.
        size: how many processes and machines the flags ask for, as ``task_of`` takes them.
    """

    make: Callable[[], tuple[Namespace, dict[str, Any]]]
    written: Callable[[], dict[str, Any]] | None = None
    trial_cls: type | None = None
    size: Mapping[str, Any] = field(default_factory=dict)


def _run_experiment(request: Request, experiment: ExperimentConfig) -> None:
    parser = options_parser(request, experiment)
    parser.set_defaults(config_defaults(experiment))
    options = parsed_options(parser, request, experiment.hyperparameters.constants())
    make_paths_absolute(options)
    # This process draws nothing before the trial is built, which seeds it.
    seed = None if isinstance(options.seed_everything, bool) else options.seed_everything
    changes = {**vars(options.model), "hparams": options.model.hparams.values}
    experiment = with_changes(experiment, **changes, seed=seed)
    check_devices(experiment, options.trainer.devices, request.again())
    _set_up_logging(experiment, request.log_level)

    def make() -> tuple[Namespace, dict[str, Any]]:
        found = parser.instantiate_classes(options)
        return found.trainer, _method_arguments(found)

    def written() -> dict[str, Any]:
        shown = without_secrets(yaml.safe_load(parser.dump(options, skip_none=False)))
        return dict(to_write(shown))

    carry_out(
        request,
        experiment,
        Given(make, written, size=size_of(options.trainer.devices, options.trainer.num_nodes)),
    )


def carry_out(request: Request, experiment: ExperimentConfig, given: Given) -> ExperimentRun:
    """Fit or validate as ``experiment`` says, in the folder of the run; returns the run.

    Raises:
        FitError: there is something for the user to mend.
    """
    fits, start = request.command == "fit", None
    if not fits:
        start = run_to_validate(request, experiment)
    elif is_chief():
        start = begin(request, experiment)
        resume_by(request.resuming(start.folder.path))
    task = task_of(experiment, start, **given.size)
    with told(task), _noted(request, start if fits else None), _full_disk_explained(request, start):
        trial_cls, functions = _trial(request, experiment, start, given)
        run = ExperimentRun(experiment, trial_cls, request.model_dir, start, functions)
        if fits and start is not None and given.written is not None:
            file = start.folder.path / "lightning.yaml"
            with naming(file, own_only=True):
                file.write_text(yaml.safe_dump(given.written(), sort_keys=False), "utf-8")
        with _damage_explained(request, run, start):
            _run(request, run, given, start)
    return run


def size_of(devices: Any, machines: Any) -> dict[str, Any]:
    """The processes and machines that a Trainer's flags ask for, if they say it in numbers."""
    machines = machines or 1
    is_known = isinstance(devices, int) and devices > 0
    return {"machines": machines, **({"slots": devices * machines} if is_known else {})}


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


@contextlib.contextmanager
def _full_disk_explained(request: Request, start: RunStart | None) -> Iterator[None]:
    """Say how to go on when there is room again; errors of the user's own code stay as they are.

    Raises:
        FitError: a disk does not take what is written to it.
    """
    try:
        yield
    except OSError as error:
        is_own = isinstance(error, errors.CheckpointWriteError)
        if not is_own and (error.errno not in NO_ROOM or _is_from(request.model_dir, error)):
            raise
        message = str(error)
        if start is not None and request.command == "fit":
            where = "" if is_own or error.filename else f"cannot write for {start.folder.path}: "
            message = f"{where}{message}. Resume the run by: {request.resuming(start.folder.path)}"
        raise FitError(message) from error


@contextlib.contextmanager
def _noted(request: Request, start: RunStart | None) -> Iterator[None]:
    """Keep in the run's folder how the run ends and what it prints; without a start, nothing."""
    if start is None:
        yield
        return
    path = start.folder.path
    with (
        tracked(path, request.tracking),
        state_noted(path, request.resuming(path)),
        run_logged(path),
    ):
        yield


def _trial(
    request: Request, experiment: ExperimentConfig, start: RunStart | None, given: Given
) -> tuple[type, LoaderFunctions]:
    """The trial, which may ask how the run begins; a new run begins only if there is one."""
    if given.trial_cls is not None:
        return given.trial_cls, NO_FUNCTIONS
    try:
        return imported_trial(experiment, request.model_dir)
    except BaseException:
        if start is not None and not start.resumes:
            start.folder.give_up()
        raise


def _run(request: Request, run: ExperimentRun, given: Given, start: RunStart | None) -> None:
    fits = request.command == "fit"
    flags, arguments = given.make()
    folder = None if start is None else start.folder
    if flags.logger is None or flags.logger is True:
        flags.logger = default_logger(folder) if fits else False
    if flags.profiler is None:
        flags.profiler = profiler_of(run.experiment.profiling, folder)
    _choose_bar(flags, request)
    trainer = _trainer(flags)
    if fits:
        company = Company(lambda: request.resuming(run.start.folder.path))
        resuming = None if folder is None else request.resuming(folder.path)
        _fit(trainer, run, resuming, arguments, company)
    else:
        _validate(trainer, run, arguments)


def _fit(
    trainer: pl.Trainer,
    run: ExperimentRun,
    resuming: str | None,
    arguments: dict[str, Any],
    company: Company,
) -> None:
    interruption = Interruption()
    report = ExperimentReport(run, resuming, interruption=interruption)
    callbacks_of(trainer).extend([report, company])
    try:
        with interruption, _deletion_noticed(run):
            trainer.fit(run.module, **arguments)
    except BaseException as error:
        is_interrupted = interruption.has_come or isinstance(error.__context__, KeyboardInterrupt)
        if resuming and (is_interrupted or isinstance(error, SystemExit)):
            print(f"resume it by: {resuming}", flush=True)
        if is_interrupted:
            end_other_ranks(trainer)
            raise SystemExit(INTERRUPTED) from None
        company.explain(error, is_alone=trainer.num_nodes * trainer.num_devices < 2)
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


def _set_up_logging(config: ExperimentConfig, level: str | None) -> None:
    """Log as a cluster did, but for the reports of metrics, which the progress bar shows."""
    chosen = level or ("debug" if config.debug else "info")
    logging.basicConfig(format=LOG_FORMAT, level=chosen.upper())
    if level is None and not config.debug:
        logging.getLogger("determined").setLevel(logging.WARNING)

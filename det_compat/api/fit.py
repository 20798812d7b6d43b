"""``det_compat.fit``: ``det-compat fit`` from Python, in a script or a notebook."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from det_compat.api.code_folder import code_of
from det_compat.api.run import Run
from det_compat.config.experiment import ExperimentConfig, parse_config, read_config
from det_compat.experiment import checks, environment
from det_compat.experiment.errors import FitError
from det_compat.experiment.processes.tracker import check_tracking
from det_compat.experiment.request import Request
from det_compat.script.ending import INTERRUPTED, TERMINATED
from det_compat.shared.verbosity import verbosity

if TYPE_CHECKING:
    from det_compat.experiment.run_folder import RunFolder

_SIGNALS = (signal.SIGINT, signal.SIGTERM)

ConfigSource = str | os.PathLike[str] | Mapping[str, Any] | ExperimentConfig


def fit(
    config: ConfigSource,
    model_dir: str | os.PathLike[str] | None = None,
    *,
    trial_cls: type | str | None = None,
    hparams: Mapping[str, Any] | None = None,
    seed: int | None = None,
    run_dir: str | os.PathLike[str] | None = None,
    resume: bool = False,
    ckpt_path: str | os.PathLike[str] | None = None,
    quiet: bool = False,
    tracking: str | None = None,
    **trainer_flags: Any,
) -> Run:
    """Train as an experiment config says, as ``det-compat fit`` does, in this process.

    The weights are those of the command, whatever random numbers this process has drawn. Code in
    ``model_dir`` is imported anew by each call, unless the caller has imported it. Random state,
    working directory, ``sys.path``, environment and signals are afterwards what they were.
    A notebook has Lightning's progress bar. Without a chance to restart in another process,
    ``max_restarts`` of a config whose entrypoint is a trial class is not obeyed.

    Args:
        config: a file, or what is in one.
        model_dir: where the entrypoint is imported from, and the trial's working directory; by
            default the folder of the file, or the working directory.
        trial_cls: the trial class, which may be one of a notebook, or ``"module:Class"``; by
            default the entrypoint of the config.
        hparams: hyperparameters over those of the config.
        seed: the seed, in place of the config's.
        run_dir: the run's folder; by default ``runs/NAME/NNN``, the next number.
        resume: whether to go on with the run in ``run_dir``, by default the latest of that name.
        ckpt_path: a checkpoint to begin with.
        quiet: whether nothing is printed but warnings.
        tracking: ``mlflow`` or ``mlflow:URI`` sends what is reported there, ``none`` nothing; by
            default, a run that was sent before is sent on.
        **trainer_flags: flags of ``pl.Trainer``, such as ``max_epochs=3`` or ``callbacks=[...]``,
            over what the config says.

    Returns:
        The run: its folder, metrics and checkpoints.

    Raises:
        ConfigError: the config is not valid.
        FitError: there is something else to mend, or a script has failed.
        KeyboardInterrupt: it was interrupted; ``resume=True`` goes on.
        SystemExit: SIGTERM has ended the run, after a checkpoint.
    """
    checks.check_installed(checks.NEEDED)
    check_tracking(tracking)
    experiment = _config(config, trial_cls)
    if model_dir is None:
        model_dir = Path(experiment.file).parent if experiment.file else Path()
    given = {"ckpt_path": ckpt_path, "seed_everything": seed}
    trial = trial_cls if isinstance(trial_cls, type) else None
    options, others = _as_options(hparams, given, trainer_flags)
    request = Request(
        command="fit",
        config=experiment.file,
        model_dir=Path(model_dir),
        run_dir=None if run_dir is None else Path(run_dir),
        resume=resume,
        options=options,
        quiet=quiet,
        tracking=tracking,
        beside=(*others, *(["trial_cls"] if trial_cls is not None else [])),
    )
    with _left_as_it_was(), verbosity(quiet=quiet):
        checks.check_asked(request, experiment)
        if experiment.entrypoint is not None and experiment.entrypoint.is_command:
            return Run(_run_script(request, experiment).path, experiment.checkpoint_storage)
        if experiment.max_restarts:
            print("note: max_restarts: fit() does not restart what fails", file=sys.stderr)
        environment.set_environment(experiment)
        with code_of(request.model_dir):
            from det_compat.adapters.experiment.from_python import train

            folder = train(
                request,
                experiment,
                trainer_flags,
                trial_cls=trial,
                hparams=hparams,
                seed=seed,
                ckpt_path=ckpt_path,
            )
        return Run(folder.path, experiment.checkpoint_storage)


def _config(source: ConfigSource, trial_cls: type | str | None) -> ExperimentConfig:
    if isinstance(source, ExperimentConfig):
        config = source
    elif isinstance(source, Mapping):
        config = parse_config(source)
    else:
        config = read_config(Path(source))
    if trial_cls is not None:
        named = trial_cls
        if isinstance(trial_cls, type):
            named = f"{trial_cls.__module__}:{trial_cls.__name__}"
        given = {key: value for key, value in config.given.items() if key != "entrypoints"}
        config = replace(parse_config({**given, "entrypoint": named}), file=config.file)
    return checks.as_here(config)


def _as_options(
    hparams: Mapping[str, Any] | None, given: Mapping[str, Any], flags: Mapping[str, Any]
) -> tuple[tuple[str, ...], list[str]]:
    """The options of ``det-compat fit`` that say the same, and the names of what none can say."""
    named = {"--model.hparams": hparams or None}
    named |= {f"--{name}": value for name, value in given.items()}
    options, others = [], []
    for option, value in named.items():
        if value is not None:
            text = _as_text(value)
            word = option.rpartition(".")[2]
            options.append(f"{option}={text}") if text is not None else others.append(word)
    for name, value in flags.items():
        text = _as_text(value) if not isinstance(value, (list, dict)) else None
        options.append(f"--trainer.{name}={text}") if text is not None else others.append(name)
    return tuple(options), others


def _as_text(value: Any) -> str | None:
    if isinstance(value, (str, os.PathLike)):
        return os.fspath(value)
    try:
        return json.dumps(value)
    except (TypeError, ValueError):
        return None


def _run_script(request: Request, experiment: ExperimentConfig) -> RunFolder:
    from det_compat.experiment.run_start import find_folder
    from det_compat.experiment.script import run_script

    folder = find_folder(request, experiment)
    status = run_script(replace(request, run_dir=folder.path), experiment)
    if status == INTERRUPTED:
        raise KeyboardInterrupt
    if status == TERMINATED:
        raise SystemExit(status)
    if status != 0:
        raise FitError(f"the script ended with status {status}; its run is in {folder.path}")
    return folder


@contextlib.contextmanager
def _left_as_it_was() -> Iterator[None]:
    """Put back what a command leaves behind in the process that it ends with.

    Raises:
        KeyboardInterrupt: the run was interrupted, in place of the status of the command.
    """
    from det_compat.shared.random_state import preserved_random_state

    variables, path, folder = dict(os.environ), [*sys.path], os.getcwd()
    is_main = threading.current_thread() is threading.main_thread()
    handlers = {number: signal.getsignal(number) for number in _SIGNALS} if is_main else {}
    try:
        with preserved_random_state():
            yield
    except SystemExit as ended:
        if ended.code == INTERRUPTED:
            raise KeyboardInterrupt from None
        raise
    finally:
        for number, handler in handlers.items():
            if handler is not None:
                signal.signal(number, handler)
        os.chdir(folder)
        sys.path[:] = path
        os.environ.clear()
        os.environ.update(variables)

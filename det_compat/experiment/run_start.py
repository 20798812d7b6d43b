"""How a run begins: in which directory, with which seed, and from which checkpoint."""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from det_compat.config.experiment import ExperimentConfig
from det_compat.experiment.environment import restarts
from det_compat.experiment.errors import FitError
from det_compat.experiment.processes.launch import is_of_launch, launch_names
from det_compat.experiment.request import Request
from det_compat.experiment.run_folder import (
    RunFolder,
    latest_run_folder,
    new_run_folder,
    run_folder_at,
    run_folders,
)
from det_compat.experiment.run_state import State, read_state
from det_compat.shared.spelling import foreign_letters

if TYPE_CHECKING:
    from det_compat.experiment.checkpoints import RunCheckpoints
    from det_compat.experiment.stored_runs import StoredRun


@dataclass(frozen=True)
class RunStart:
    """How a run begins.

    Attributes:
        folder: the run's directory.
        seed: the seed of the run.
        resumes: whether the run has been started before.
        latest_checkpoint: the UUID of the checkpoint that it goes on from; None for none.
        steps_completed: batches that were trained until that checkpoint.
    """

    folder: RunFolder
    seed: int
    resumes: bool
    latest_checkpoint: str | None = None
    steps_completed: int = 0


def find_folder(request: Request, config: ExperimentConfig) -> RunFolder:
    """The directory of the run that is asked for, a new one unless it is to be resumed.

    A launch that has been started again goes on with its run. A run that goes on where there is no
    folder of it is found by its checkpoints, if they are in a storage of the config's.

    Raises:
        FitError: there is nothing to resume, or something else is in the directory; or its name
            cannot be written as text.
    """
    folder = _found_folder(request, config)
    if why := foreign_letters(folder.path):
        raise FitError(f"run directory {why}")
    return folder


def _found_folder(request: Request, config: ExperimentConfig) -> RunFolder:
    fits = request.command == "fit"
    if request.run_dir is not None:
        return _folder_at(request.run_dir, request, config)
    name = config.name or Path(request.config or "run").stem
    if fits and (own := _folder_of_launch(name, config)) is not None:
        return own
    if not request.resume:
        return new_run_folder(name)
    found = None
    if fits and not any(run_folders(name)):
        found = _taken_up(name, config, lambda run: run.name == str(config.name))
    return found or latest_run_folder(name)


def _folder_at(path: Path, request: Request, config: ExperimentConfig) -> RunFolder:
    folder, is_again = RunFolder(path), restarts() > 0
    if folder.holds_run:
        is_own = is_again or is_of_launch(folder.about().get("launch"))
        return folder if is_own else run_folder_at(path, may_hold_run=request.resume)
    if request.command == "fit" and (request.resume or is_again):
        where = folder.path.name, str(config.name)
        _take_up(folder, config, lambda run: (run.folder, run.name) == where)
    return folder if is_again else run_folder_at(path, may_hold_run=request.resume)


def _folder_of_launch(name: str, config: ExperimentConfig) -> RunFolder | None:
    """The folder of the run that an earlier process of this launch has begun."""
    for folder in run_folders(name):
        # One launch may train several runs, one after the other.
        is_over = not restarts() and read_state(folder.path).state is State.DONE
        if is_of_launch(folder.about().get("launch")) and not is_over:
            return folder
    if not launch_names() or not restarts():
        return None
    return _taken_up(name, config, lambda run: is_of_launch(run.launch))


def _taken_up(
    name: str, config: ExperimentConfig, is_wanted: Callable[[StoredRun], bool]
) -> RunFolder | None:
    if config.checkpoint_storage.url is None:
        return None
    folder = new_run_folder(name)
    try:
        if _take_up(folder, config, is_wanted):
            return folder
    except FitError:
        folder.give_up()
        raise
    folder.give_up()
    return None


def _take_up(
    folder: RunFolder, config: ExperimentConfig, is_wanted: Callable[[StoredRun], bool]
) -> bool:
    # This import brings torch, which some runs do not need here.
    from det_compat.experiment.stored_runs import take_up

    return take_up(folder, config, is_wanted)


def begin(request: Request, config: ExperimentConfig) -> RunStart:
    """Take the run's directory, and find what to go on from.

    Raises:
        FitError: there is nothing to resume, or the directory cannot be used.
    """
    folder = find_folder(request, config)
    if restarts() and not folder.holds_run:
        print(
            f"restart {restarts()}: no run of this launch is found here, and a new one begins. If "
            "there was one, it is on another machine: set checkpoint_storage, and give --run_dir, "
            "or --rdzv_id to torchrun",
            file=sys.stderr,
        )
    goes_on = restarts() > 0 or is_of_launch(folder.about().get("launch"))
    return begin_in(folder, config, resume=request.resume, is_restart=goes_on)


def run_to_validate(request: Request, config: ExperimentConfig) -> RunStart:
    """The run whose latest checkpoint is validated, if it is asked for; nothing is written there.

    Raises:
        FitError: there is no such run, or it has no checkpoint.
    """
    if request.resume or request.run_dir is not None:
        run = find_folder(replace(request, resume=True), config)
        latest, steps = _latest(_checkpoints(run, config))
        if latest is None:
            raise FitError(f"nothing to validate: the run in {run.path} has no complete checkpoint")
        return RunStart(run, _seed(config, run), True, latest, steps)
    folder = tempfile.mkdtemp(prefix="det-compat-validate-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return RunStart(RunFolder(folder), _seed(config), resumes=False)


def begin_in(
    folder: RunFolder, config: ExperimentConfig, *, resume: bool, is_restart: bool = False
) -> RunStart:
    """Take ``folder``, or go on with the run in it.

    What an interrupted process has left of a checkpoint is removed. A run that was killed before
    its first checkpoint begins again, with its seed.

    Args:
        folder: the run's directory.
        config: the run's experiment config.
        resume: whether to go on with a run that is there.
        is_restart: the same, for a restart by ``max_restarts``.

    Raises:
        FitError: there is nothing to resume, or the directory cannot be used.
    """
    seed, launch = _seed(config, folder), launch_names()
    goes_on = (resume or is_restart) and folder.holds_run
    if resume and not goes_on and not is_restart:
        raise FitError(f"nothing to resume: {folder.path} holds no run of det-compat fit")
    found: tuple[str | None, int] = (None, 0)
    if goes_on:
        _check_not_running(folder)
        if launch:
            folder.note_launch(launch)
        found = put_in_order(folder, config)
        if found[0] is None:
            print(f"{folder.path} has no complete checkpoint: the run starts from the beginning")
    elif not folder.holds_run:
        folder.begin(config.raw, seed=seed, launch=launch)
    return RunStart(folder, seed, goes_on, *found)


def put_in_order(folder: RunFolder, config: ExperimentConfig) -> tuple[str | None, int]:
    """Find all checkpoints of a run, and remove what interrupted processes have left of others.

    Returns:
        The UUID of the latest, or None, and the batches trained when it was saved.

    Raises:
        FitError: they cannot be read.
    """
    try:
        checkpoints = _checkpoints(folder, config)
        checkpoints.take_in()
        checkpoints.delete_unfinished()
        return _latest(checkpoints)
    except OSError as error:
        raise FitError(f"cannot read the checkpoints of {folder.path}: {error}") from error


def _check_not_running(folder: RunFolder) -> None:
    state = read_state(folder.path)
    if state.state is State.RUNNING and state.process != os.getpid():
        raise FitError(
            f"{folder.path} is in use: process {state.process} of {state.host} trains this run. "
            "Wait for its end, or tell it to end: det-compat runs stop"
        )


def _seed(config: ExperimentConfig, folder: RunFolder | None = None) -> int:
    """The seed of the config, else that of the run in ``folder``, else a new one."""
    if config.seed is not None:
        return config.seed
    if folder is not None and folder.holds_run:
        return folder.seed()
    return new_seed()


def new_seed() -> int:
    """A seed of 31 bits, as Determined's were."""
    return secrets.randbits(31)


def _checkpoints(folder: RunFolder, config: ExperimentConfig) -> RunCheckpoints:
    # This import brings torch, which some runs do not need here.
    from det_compat.experiment.checkpoints import checkpoints_of

    return checkpoints_of(config.checkpoint_storage, folder)


def _latest(checkpoints: RunCheckpoints) -> tuple[str | None, int]:
    found = checkpoints.latest_of_run()
    return (None, 0) if found is None else (found.uuid, found.steps_completed or 0)

"""How a run begins: in which directory, with which seed, and from which checkpoint."""

from __future__ import annotations

import atexit
import os
import secrets
import shutil
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from det_compat.config.experiment import ExperimentConfig
from det_compat.experiment.environment import restarts
from det_compat.experiment.errors import FitError
from det_compat.experiment.request import Request
from det_compat.experiment.run_folder import (
    RunFolder,
    latest_run_folder,
    new_run_folder,
    run_folder_at,
)
from det_compat.experiment.run_state import State, read_state

if TYPE_CHECKING:
    from det_compat.experiment.checkpoints import RunCheckpoints


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

    Raises:
        FitError: there is nothing to resume, or something else is in the directory.
    """
    if request.run_dir is not None:
        if restarts():
            return RunFolder(request.run_dir)
        return run_folder_at(request.run_dir, may_hold_run=request.resume)
    name = config.name or Path(request.config or "run").stem
    return latest_run_folder(name) if request.resume else new_run_folder(name)


def begin(request: Request, config: ExperimentConfig) -> RunStart:
    """Take the run's directory, and find what to go on from.

    Raises:
        FitError: there is nothing to resume, or the directory cannot be used.
    """
    folder = find_folder(request, config)
    return begin_in(folder, config, resume=request.resume, is_restart=restarts() > 0)


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
    seed = _seed(config, folder)
    goes_on = (resume or is_restart) and folder.holds_run
    if resume and not goes_on and not is_restart:
        raise FitError(f"nothing to resume: {folder.path} holds no run of det-compat fit")
    found: tuple[str | None, int] = (None, 0)
    if goes_on:
        _check_not_running(folder)
        try:
            checkpoints = _checkpoints(folder, config)
            checkpoints.delete_unfinished()
            found = _latest(checkpoints)
        except OSError as error:
            raise FitError(f"cannot read the checkpoints of {folder.path}: {error}") from error
        if found[0] is None:
            print(f"{folder.path} has no complete checkpoint: the run starts from the beginning")
    elif not folder.holds_run:
        folder.begin(config.raw, seed=seed)
    return RunStart(folder, seed, goes_on, *found)


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

"""Runs whose entrypoint is a command."""

from __future__ import annotations

import os
import shlex
from typing import Any

from det_compat.config.experiment import ExperimentConfig
from det_compat.fit.environment import device_kind
from det_compat.fit.errors import FitError
from det_compat.fit.place import begin_in, find_folder
from det_compat.fit.request import Request
from det_compat.fit.script import runs_det_compat, script_command
from det_compat.fit.supervisor import Start, supervise
from det_compat.script.task import Task


def run_script(request: Request, config: ExperimentConfig) -> int:
    """Run the script of ``config``, which is told what a cluster told it; the exit status.

    Raises:
        FitError: it cannot be run.
    """
    assert config.entrypoint is not None
    if request.command != "fit":
        raise FitError("validate needs an entrypoint module:TrialClass; this one is a script")
    if request.options:
        raise FitError(
            f"the entrypoint is a script, which Lightning's options do not reach: "
            f"{shlex.join(request.options)}; change the entrypoint in the config"
        )
    argv = script_command(config.entrypoint, max(config.slots_per_trial, 1))
    folder = find_folder(request, config)
    variables = config.environment.for_device(device_kind(config.slots_per_trial))

    def start(attempt: int) -> Start:
        place = begin_in(folder, config, resume=request.resume, is_restart=attempt > 1)
        task = Task(
            config=_with_seed(config, place.seed),
            hparams=config.hyperparameters.constants(),
            trial_seed=place.seed,
            slots=max(config.slots_per_trial, 1),
            run_dir=str(folder.path),
            latest_checkpoint=place.latest_checkpoint,
            steps_completed=place.steps_completed,
        )
        return Start(argv, {**variables, **task.variables()})

    if not runs_det_compat(argv):
        print(
            "note: the command runs as it is; scripts in it find det_compat as `determined` where "
            "they are started by `det-compat run SCRIPT`"
        )
    print(f"running {shlex.join(config.entrypoint.argv)} in {request.model_dir.resolve()}")
    print(f"run directory: {folder.path}", flush=True)
    try:
        status = supervise(start, restarts=config.max_restarts, folder=request.model_dir.resolve())
    except FileNotFoundError as error:
        raise FitError(
            f"entrypoint: cannot run {argv[0]!r}: {os.strerror(error.errno or 0)}"
        ) from error
    print(f"resume it by: {request.resuming(folder.path)}")
    return status


def _with_seed(config: ExperimentConfig, seed: int) -> dict[str, Any]:
    given = config.raw.get("reproducibility") or {}
    return {**config.raw, "reproducibility": {**given, "experiment_seed": seed}}

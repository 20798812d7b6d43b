"""Runs whose entrypoint is a command, in which ``determined`` is found in det_compat."""

import contextlib
import os
import shlex
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from det_compat.config import experiment
from det_compat.config.entrypoint import Entrypoint
from det_compat.experiment import run_start, run_state
from det_compat.experiment.curves import draw_curves
from det_compat.experiment.environment import device_variables
from det_compat.experiment.errors import FitError
from det_compat.experiment.processes import supervisor
from det_compat.experiment.processes.tracker import tracked
from det_compat.experiment.request import Request
from det_compat.experiment.run_folder import RunFolder
from det_compat.experiment.task import task_of
from det_compat.script.command import aliasing_variables, under_det_compat
from det_compat.script.ending import PARENT, REQUEUE, TERMINATED
from det_compat.script.machines import (
    launched,
    machines,
    own_address,
    processes_here,
    requeue_job,
    tell_as_torchrun,
)
from det_compat.script.meeting import have_met
from det_compat.script.task import Task

_TORCHRUN = [sys.executable, "-m", "torch.distributed.run"]
_LAUNCHERS = ("torch_distributed", "horovod", "autohorovod")


def run_script(request: Request, config: experiment.ExperimentConfig) -> int:
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
    if (launcher := launched()) is not None and (processes_here() or 1) * machines() > 1:
        return _run_as_rank(request, config, config.entrypoint, launcher)
    folder = run_start.find_folder(request, config)

    def variables(attempt: int) -> dict[str, str]:
        start = run_start.begin_in(folder, config, resume=request.resume, is_restart=attempt > 1)
        _forget_processes(folder)
        return script_variables(config, replace(task_of(config, start), attempt=attempt))

    supervisor.check_not_in_use(folder.path)
    with contextlib.suppress(OSError):  # which begin_in() tells
        folder.path.mkdir(parents=True, exist_ok=True)
    return _run(request, config, folder, argv, variables, config.max_restarts)


def _run_as_rank(
    request: Request, config: experiment.ExperimentConfig, entrypoint: Entrypoint, launcher: str
) -> int:
    """Run the script as the process of ``launcher`` that this is, in place of the config's own."""
    if entrypoint.launcher is None:
        raise FitError(
            f"the entrypoint is a script, and every process of {launcher} would start it anew: if "
            "it is made for several processes, have the config say so, by entrypoint: python3 -m "
            f"determined.launch.torch_distributed {shlex.join(entrypoint.argv)}"
        )
    from det_compat.core import DistributedContext

    tell_as_torchrun()
    ranks = DistributedContext.from_torch_distributed()
    begun = run_start.begin(request, config) if ranks.rank == 0 else None
    if begun is not None:
        _forget_processes(begun.folder)
    start: run_start.RunStart = ranks.broadcast(begun)  # type: ignore[assignment]  # rank 0 has one
    own = ranks.allgather(own_address() if ranks.local_rank == 0 else None)
    ranks.close()
    have_met()
    addresses = [address for address in own if address is not None]
    task = replace(task_of(config, start, slots=ranks.size), addresses=addresses)
    own_variables = {**script_variables(config, task), PARENT: str(os.getpid())}
    argv = under_det_compat(entrypoint.argv)
    received: list[int] = []

    def end(number: int, frame: Any) -> None:
        received.append(number)
        signal.raise_signal(signal.SIGTERM)  # which is passed on to the script

    if launcher == "SLURM":
        signal.signal(REQUEUE, end)
    if ranks.rank > 0:
        command, folder = supervisor.Command(argv, own_variables), request.model_dir.resolve()
        return supervisor.supervise(lambda attempt: command, start.folder.path, folder=folder)
    status = _run(request, config, start.folder, argv, lambda attempt: own_variables, 0)
    if received and status == TERMINATED:
        requeue_job()
    return status


def _forget_processes(folder: RunFolder) -> None:
    """Remove what earlier processes of the script have left to tell how they ended."""
    for mark in (folder.preempted, *folder.processes()):
        mark.unlink(missing_ok=True)


def _run(
    request: Request,
    config: experiment.ExperimentConfig,
    folder: RunFolder,
    argv: Sequence[str],
    variables: Callable[[int], Mapping[str, str]],
    restarts: int,
) -> int:
    """Run the script ``argv``, and keep in the run's folder how it ends; the exit status.

    Args:
        request: what was asked for.
        config: the experiment config.
        folder: of the run.
        argv: the command.
        variables: returns those of an attempt, the first of which is 1.
        restarts: how often to start it again.
    """
    assert config.entrypoint is not None
    model_dir = request.model_dir.resolve()
    print(f"running {shlex.join(config.entrypoint.argv)} in {model_dir}")
    print(f"run directory: {folder.path}", flush=True)
    try:
        with (
            tracked(folder.path, request.tracking),
            run_state.state_noted(folder.path, request.resuming(folder.path)) as noted,
        ):
            noted.status = status = supervisor.supervise(
                lambda attempt: supervisor.Command(argv, variables(attempt)),
                folder.path,
                restarts=restarts,
                folder=model_dir,
            )
            is_told = _is_told_torchrun(argv, status) and not folder.processes()
            if folder.preempted.exists() and (status == 0 or is_told):
                print("the script was preempted, and ended before its end")
                noted.status = status = TERMINATED
    except FileNotFoundError as error:
        raise FitError(
            f"entrypoint: cannot run {argv[0]!r}: {os.strerror(error.errno or 0)}"
        ) from error
    print(f"curves: {draw_curves(folder.path)}")
    print(f"resume it by: {request.resuming(folder.path)}")
    return status


def script_variables(config: experiment.ExperimentConfig, task: Task) -> dict[str, str]:
    """The variables of a script's environment: its devices, its task, and who is ``determined``."""
    own = {**device_variables(config), **task.variables()}
    return {**own, **aliasing_variables({**os.environ, **own})}


def script_command(entrypoint: Entrypoint, slots: int) -> list[str]:
    """The command that runs a script entrypoint on ``slots`` processes of this machine.

    A script of Python runs under ``det-compat run``; any other command runs as it is, and the
    Pythons that it starts find det_compat by their environment.

    Raises:
        FitError: the launcher is not supported.
    """
    command = under_det_compat(entrypoint.argv)
    if entrypoint.launcher is None:
        return command
    if entrypoint.launcher not in _LAUNCHERS:
        raise FitError(
            f"entrypoint: the launcher {entrypoint.launcher} is not supported; "
            "determined.launch.torch_distributed is"
        )
    processes = [] if _says_processes(entrypoint.launcher_args) else [f"--nproc_per_node={slots}"]
    own_args = entrypoint.launcher_args if entrypoint.launcher == "torch_distributed" else ()
    return [*_TORCHRUN, *processes, *own_args, "--no-python", *command]


def _is_told_torchrun(argv: Sequence[str], status: int) -> bool:
    """Whether torchrun may have ended so by a signal: its status is 1, whatever its ranks' are."""
    names = ("torchrun", "torch.distributed.run", "torch.distributed.launch")
    return status == 1 and any(word.rpartition("/")[2] in names for word in argv)


def _says_processes(args: Sequence[str]) -> bool:
    return any(arg.replace("-", "_").startswith("__nproc_per_node") for arg in args)

"""A trial of a search whose entrypoint is a script."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import socket
import subprocess
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

from det_compat.config.experiment import ExperimentConfig, parse_config
from det_compat.config.lengths import Length, Unit
from det_compat.errors import InvalidHP
from det_compat.fit.environment import device_kind
from det_compat.fit.place import begin_in
from det_compat.fit.run_folder import RunFolder
from det_compat.fit.script import script_command
from det_compat.script.task import Task
from det_compat.search.records import TrialRecord
from det_compat.search.tune.attempt import ReportFunction

_PERIOD = 0.2  # seconds between two looks at a script that has not reported yet


def train_one(
    config: dict[str, Any],
    run_dir: Path,
    report: ReportFunction,
    resume_from: str | None,
    *,
    model_dir: Path,
    validate_at: Sequence[Length],
) -> None:
    """Run a script; see ``det_compat.search.tune.attempt.TrainOne``.

    What the script's ``pytorch.Trainer`` validates is reported. A script that this process does not
    answer, since the search has stopped the trial, ends itself.

    Raises:
        FitError: the script cannot be run.
        InvalidHP: the trial raised it.
        RuntimeError: the script failed.
    """
    experiment = parse_config(config)
    folder = RunFolder(run_dir)
    begin_in(folder, experiment, resume=False)
    with socket.create_server(("127.0.0.1", 0)) as server:
        task = _task(experiment, folder, resume_from, validate_at, server.getsockname()[1])
        # the script ends when nobody listens any more, and is waited for
        with (
            _started(experiment, task, model_dir) as process,
            contextlib.closing(_messages(server, process)) as messages,
        ):
            for message, answer in messages:
                if "early_exit" in message:
                    raise InvalidHP("the script's trial raised it: its log says why")
                report(message["batches"], message["metrics"], message["checkpoint"])
                answer()
    if process.returncode:
        raise RuntimeError(f"the script failed with status {process.returncode}")


def _task(
    experiment: ExperimentConfig,
    folder: RunFolder,
    resume_from: str | None,
    validate_at: Sequence[Length],
    port: int,
) -> Task:
    assert experiment.seed is not None
    known = [rung for rung in validate_at if rung.unit is not Unit.CUSTOM]
    return Task(
        config=experiment.raw,
        hparams=experiment.hyperparameters.constants(),
        trial_seed=experiment.seed,
        slots=max(experiment.slots_per_trial, 1),
        run_dir=str(folder.path),
        latest_checkpoint=None if resume_from is None else resume_from.rpartition("/")[2],
        steps_completed=_batches(folder, resume_from),
        search=port,
        validate_at=[{rung.unit.value: rung.value} for rung in known],
    )


def _batches(folder: RunFolder, checkpoint: str | None) -> int:
    reports = TrialRecord(folder.path).reports()
    return next((one.batches for one in reports if one.checkpoint == checkpoint), 0)


def _started(experiment: ExperimentConfig, task: Task, model_dir: Path) -> subprocess.Popen[bytes]:
    assert experiment.entrypoint is not None
    variables = experiment.environment.for_device(device_kind(experiment.slots_per_trial))
    return subprocess.Popen(
        script_command(experiment.entrypoint, task.slots),
        env={**os.environ, **variables, **task.variables()},
        cwd=model_dir,
    )


def _messages(
    server: socket.socket, process: subprocess.Popen[bytes]
) -> Generator[tuple[dict[str, Any], Callable[[], None]], None, None]:
    """What the script has to say, each with what lets it go on, until it ends."""
    server.settimeout(_PERIOD)
    while process.poll() is None:
        try:
            connection, _ = server.accept()
        except TimeoutError:
            continue
        connection.settimeout(None)
        with connection, connection.makefile("r", encoding="utf-8") as file:
            for line in file:
                yield json.loads(line), functools.partial(connection.sendall, b"\n")

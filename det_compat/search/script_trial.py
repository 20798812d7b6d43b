"""A trial of a search whose entrypoint is a script."""

import contextlib
import functools
import json
import os
import socket
import subprocess
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from det_compat.config.experiment import parse_config
from det_compat.config.lengths import Length, Unit
from det_compat.errors import InvalidHP
from det_compat.experiment import run_folder, run_start, script
from det_compat.experiment.task import task_of
from det_compat.search.records import TrialRecord, starts_of, trial_number
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
    assert experiment.entrypoint is not None
    folder = run_folder.RunFolder(run_dir)
    record = TrialRecord(folder.path)
    # A trial that was killed before it reported a checkpoint goes on from one that it has saved.
    is_restart = not any(one.checkpoint for one in record.reports())
    start = run_start.begin_in(folder, experiment, resume=False, is_restart=is_restart)
    if resume_from is not None:
        reports = record.reports()
        batches = next((one.batches for one in reports if one.checkpoint == resume_from), 0)
        uuid = resume_from.rpartition("/")[2]
        start = replace(start, latest_checkpoint=uuid, steps_completed=batches)
    rungs = [rung for rung in validate_at if rung.unit is not Unit.CUSTOM]
    with socket.create_server(("127.0.0.1", 0)) as server:
        task = replace(
            task_of(experiment, start, trial_id=trial_number(run_dir), attempt=starts_of(run_dir)),
            epochs_completed=_epochs_until(start.steps_completed, record),
            search=server.getsockname()[1],
            validate_at=[{rung.unit.value: rung.value} for rung in rungs],
        )
        # The script ends when nobody listens any more, and is waited for.
        with (
            subprocess.Popen(
                script.script_command(experiment.entrypoint, task.slots),
                env={**os.environ, **script.script_variables(experiment, task)},
                cwd=model_dir,
            ) as process,
            contextlib.closing(_messages(server, process)) as messages,
        ):
            for message, answer in messages:
                if "early_exit" in message:
                    raise InvalidHP("the script's trial raised it: its log says why")
                if "metrics" not in message:
                    _note_checkpoint(record, message["batches"], message["checkpoint"])
                    continue
                report(message["batches"], message["metrics"], message["checkpoint"])
                answer()
    if process.returncode:
        raise RuntimeError(f"the script failed with status {process.returncode}")


def _epochs_until(batches: int, record: TrialRecord) -> float:
    """How many epochs a trial had trained after so many batches; 0 where its reports do not say."""
    told = [one.metrics.get("epochs") for one in record.reports() if one.batches <= batches]
    return max((epochs for epochs in told if isinstance(epochs, (int, float))), default=0.0)


def _note_checkpoint(record: TrialRecord, batches: int, checkpoint: str) -> None:
    """Add to the last report of a trial the checkpoint that its script has saved since."""
    last = next(reversed(record.reports()), None)
    if last is not None and last.batches == batches:
        record.append(replace(last, checkpoint=checkpoint))


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

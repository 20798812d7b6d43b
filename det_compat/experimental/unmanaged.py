"""Runs of scripts that start by themselves: their folders, and how they go and end.

They have the files of the runs of ``det-compat fit``, so that ``det-compat runs`` finds them.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from det_compat import core
from det_compat.core.checkpoint import CheckpointContext
from det_compat.core.distributed import DistributedContext
from det_compat.core.reports.kept import plain_value
from det_compat.core.storage import StorageManager
from det_compat.experiment.run_folder import RunFolder
from det_compat.experiment.run_state import State, read_state, state_noted
from det_compat.script.ending import TERMINATED, end_of_program
from det_compat.script.run import program_again
from det_compat.script.run_log import run_logged
from det_compat.script.run_paths import RunPaths

logger = logging.getLogger("determined.core")

#: What Determined tells a script that has given no searcher; nothing is reported by this name.
NO_SEARCHER = {"name": "single", "metric": "unmanaged"}


class TrialCheckpoints(CheckpointContext):
    """Checkpoints of a trial, whose names its folder keeps; they have ``steps_completed``."""

    _needs_steps = True

    def __init__(self, dist: DistributedContext, manager: StorageManager, paths: RunPaths) -> None:
        super().__init__(dist, manager)
        self.run = self._paths = paths

    def latest(self) -> tuple[str | None, int]:
        """The last complete checkpoint and its ``steps_completed``, by the word of the chief."""
        return self._dist.broadcast(self._latest() if self._dist.rank == 0 else (None, 0))

    def _latest(self) -> tuple[str | None, int]:
        names = self._paths.begun_checkpoints()
        for name in reversed(names):
            if self._storage_manager.metadata(name) is not None:
                return name, int(self.get_metadata(name)["steps_completed"])
        if names:
            logger.warning(
                f"none of the checkpoints that {self._paths.checkpoint_names} names is where this "
                "run has its own: it starts from the beginning"
            )
        return None, 0


class UnmanagedContext(core.Context):
    """A context whose run has a folder, in which rank 0 notes how the run goes.

    Args:
        folder: the folder of the run.
        storage: the path or URL of its checkpoints.
        goes_on_by_name: whether the same script goes on with the run.
        parts: those of ``core.Context``, whose ``info`` is there.

    Raises:
        ValueError: the folder holds a run of ``det-compat fit``.
    """

    def __init__(
        self, *args: Any, folder: Path, storage: str, goes_on_by_name: bool, **parts: Any
    ) -> None:
        super().__init__(*args, **parts)
        self._storage = storage
        self._folder = RunFolder(folder)
        self._goes_on_by_name = goes_on_by_name
        if self._folder.holds_run and not self._folder.is_of_script:
            raise ValueError(
                f"{folder} holds a run of det-compat fit: give another external_experiment_id, or "
                "start the script somewhere else"
            )

    def start(self) -> None:
        super().start()
        if self.distributed.rank == 0:
            self._running.enter_context(self._noted())

    def _noted(self) -> contextlib.AbstractContextManager[None]:
        info = self.info
        assert info is not None
        config = {**info.trial._config, "hyperparameters": info.trial.hparams}
        if config["searcher"] == NO_SEARCHER:
            del config["searcher"]
        return run_noted(
            self._folder.path,
            config,
            storage=self._storage,
            is_preempted=lambda: self.preempt.has_preempted,
            again=program_again() if self._goes_on_by_name and self.distributed.size == 1 else (),
        )


@contextlib.contextmanager
def run_noted(
    path: Path,
    config: Mapping[str, Any],
    *,
    storage: str,
    is_preempted: Callable[[], bool],
    again: Sequence[str] = (),
) -> Iterator[None]:
    """Keep how the run of a script goes while the block lasts, and how it ends.

    Args:
        path: the folder of the run.
        config: what is known of it, as in an experiment config; any object may be among it.
        storage: the path or URL of its checkpoints.
        is_preempted: whether it has been told to stop.
        again: the command that goes on with it, if one does.
    """
    folder = RunFolder(path)
    state, run_id = read_state(folder.path), folder.about().get("id")
    if state.state is State.RUNNING and state.process != os.getpid():
        logger.warning(
            f"{folder.path} is in use: process {state.process} of {state.host} reports there, "
            "too. Runs side by side need an external_trial_id each"
        )
    plain = json.loads(json.dumps(config, default=_plain))
    folder.begin(plain, seed=0, run_id=run_id, is_of_script=True)
    folder.note_storage(storage)
    with state_noted(folder.path, shlex.join(again)) as noted:
        error = None
        with run_logged(folder.path):
            try:
                yield
            except BaseException as raised:
                if raised is not end_of_program():
                    raise
                error = raised  # It was shown, and logged so, when the program ended.
        if error is not None:
            raise error
        if is_preempted():
            noted.status = TERMINATED


def _plain(value: Any) -> Any:
    plain = plain_value(value)
    return str(value) if plain is value else plain


def file_name(given: str) -> str:
    """``given`` as the name of a file: other names have other ones."""
    plain = re.sub(r"[^\w.-]", lambda found: f"%{ord(found[0]):02x}", given)
    return f"%{plain}" if plain.startswith(".") else plain

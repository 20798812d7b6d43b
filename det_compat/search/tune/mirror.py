"""The folders of trials on machines that do not see the folder of their search.

Such a machine gets what is there of a trial before it starts it, and hands back after each
validation, and now and then, what has changed since, so that the search's own machine has all of
it, as if it saw the disk. Checkpoints do not travel: they are in a storage that all machines see.

A trial of several processes has such a folder in each of them.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
import uuid
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from det_compat.config.experiment import parse_config
from det_compat.experiment.run_folder import RunFolder
from det_compat.search.errors import SearchError
from det_compat.search.records import NONCE, SearchFolder
from det_compat.search.tune.attempt import TrialTask
from det_compat.search.tune.scratch import Scratch

# What a trial adds to at the end alone, as the search's own machine may do to the same file.
_LOGS = "log*.txt"
# Of what several processes note of a trial the first counts.
_NOTED_ONCE = {"end.json", "error.txt"}
_PERIOD = 5.0  # seconds


@dataclass(frozen=True)
class Changes:
    """What has become of a trial's files, by path: new ones, more of some, and none of others."""

    written: dict[str, bytes]
    added: dict[str, bytes]
    deleted: list[str]


_NO_CHANGES = Changes({}, {}, [])


class Keeper:
    """Has the folder of a search, for machines that do not see it; an actor on one that does."""

    def __init__(self, folder: SearchFolder) -> None:
        self._folder = folder
        self._starts: dict[int, int] = {}
        self._machines: dict[int, set[str]] = {}

    def begin(self, index: int) -> int:
        """Take note that trial ``index`` starts, maybe again; the number of this start."""
        self._machines[index] = set()
        self._starts[index] = self._starts.get(index, 0) + 1
        return self._starts[index]

    def meet(self, index: int, machine: str) -> None:
        """Take note that trial ``index`` is on a machine, too."""
        self._machines.setdefault(index, set()).add(machine)

    def machines(self, index: int) -> set[str]:
        """The machines on which trial ``index`` was since it started last."""
        return self._machines.get(index, set())

    def nonce(self) -> str:
        """What a machine finds in the folder if it sees the same disk."""
        return _nonce_in(self._folder)

    def pull(self, index: int) -> dict[str, bytes]:
        """The files of trial ``index``, by path."""
        return {name: file.read_bytes() for name, file in _files(self._folder, index).items()}

    def push(self, index: int, start: int, changes: Changes) -> None:
        """Do to the files of trial ``index`` what was done to them on another machine.

        Raises:
            SearchError: the trial has started again since, as when a machine was taken for lost.
        """
        if start != self._starts.get(index, 0):
            raise SearchError(f"trial {index} has started again on another machine")
        folder = self._folder.trial(index).folder
        for name in changes.deleted:
            (folder / name).unlink(missing_ok=True)
        for name, content in changes.added.items():
            with (folder / name).open("ab") as file:
                file.write(content)
        for name, content in changes.written.items():
            if name in _NOTED_ONCE and (folder / name).exists():
                continue
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            part = (folder / name).with_name(f".{Path(name).name}.part")
            part.write_bytes(content)
            part.replace(folder / name)


def start_keeper(folder: SearchFolder) -> Any:
    """A keeper on this machine, of which handles may be passed on."""
    (folder.path / NONCE).write_text(uuid.uuid4().hex)
    here = NodeAffinitySchedulingStrategy(ray.get_runtime_context().get_node_id(), soft=False)
    return ray.remote(num_cpus=0)(Keeper).options(scheduling_strategy=here).remote(folder)


class Mirror:
    """What a process works with: the task as it is on this machine.

    Args:
        task: the task, as the search's machine has it.
        keeper: of the search's folder; None where all is on one machine.
        index: the first trial.

    Raises:
        SearchError: checkpoints would be lost with this machine.
    """

    def __init__(self, task: TrialTask, keeper: Any, index: int) -> None:
        self.task = task
        self._keeper: Any = keeper
        self._scratch: Scratch | None = None
        self._known: dict[str, tuple[int, int]] = {}
        self._lock = threading.Lock()
        self._is_closed = threading.Event()
        self._pushes = False
        self._index, self._start = index, 0
        if keeper is None:
            return
        self._meet(index)
        if ray.get(keeper.nonce.remote()) == _nonce_in(task.folder):
            return
        storage = parse_config(task.config).checkpoint_storage
        if storage.url is None:
            why = (
                f"this machine does not see {task.folder.path}, and checkpoint_storage is not one "
                "that all machines see: set it to s3, gcs, azure, or shared_fs with a folder that "
                "they share"
            )
            # Tune tells nobody why an actor does not start.
            noted = Changes({"error.txt": why.encode()}, {}, [])
            ray.get(keeper.push.remote(index, ray.get(keeper.begin.remote(index)), noted))
            raise SearchError(why)
        self._scratch = Scratch()
        # What is downloaded here goes with the trial, too, if it is killed.
        temporary = self._scratch.path / "tmp"
        temporary.mkdir()
        os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
        # Ray has put the code into the working directory, where it was told to.
        is_sent = "working_dir" in ray.get_runtime_context().runtime_env
        model_dir = Path.cwd() if is_sent else task.model_dir
        self.task = replace(task, folder=SearchFolder(self._scratch.path), model_dir=model_dir)

    def pull(self, index: int, start: int | None = None) -> None:
        """Get what is there of trial ``index``, which starts here.

        Args:
            index: the trial.
            start: the number of its start, if another process has begun it.
        """
        if self._keeper is None:
            return
        begun = ray.get(self._keeper.begin.remote(index)) if start is None else start
        self._meet(index)
        if self._scratch is None:
            return
        folder = self.task.folder.trial(index).folder
        with self._lock:
            shutil.rmtree(folder, ignore_errors=True)
            for name, content in ray.get(self._keeper.pull.remote(index)).items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(content)
            self._known = _states(self.task.folder, index)
            self._index, self._start = index, begun
        if not self._pushes:
            self._pushes = True
            threading.Thread(target=self._push_now_and_then, daemon=True).start()

    def push(self, index: int) -> None:
        """Hand back what has changed of trial ``index``; returns when it is there."""
        if self._scratch is None:
            return
        with self._lock:
            states, files = _states(self.task.folder, index), _files(self.task.folder, index)
            changed = {name for name, state in states.items() if self._known.get(name) != state}
            logs = {name for name in changed if fnmatch(name, _LOGS)}
            changes = Changes(
                {name: files[name].read_bytes() for name in changed - logs},
                {name: _part(files[name], self._known.get(name), states[name]) for name in logs},
                # What was known here and is another one now was deleted in between.
                sorted(
                    self._known.keys() - states.keys() | changed & self._known.keys() & _NOTED_ONCE
                ),
            )
            if changes != _NO_CHANGES:
                ray.get(self._keeper.push.remote(index, self._start, changes))
            self._known = states

    def close(self) -> None:
        """Leave nothing on this machine."""
        self._is_closed.set()
        if self._scratch is not None:
            with self._lock:
                self._scratch.close()

    def _push_now_and_then(self) -> None:
        """Let little be lost with this machine, such as word of the checkpoints that it has begun.

        What fails, as where a file is gone in between, the next one does.
        """
        while not self._is_closed.wait(_PERIOD):
            with contextlib.suppress(Exception):
                self.push(self._index)

    def _meet(self, index: int) -> None:
        machine = ray.get_runtime_context().get_node_id()
        ray.get(self._keeper.meet.remote(index, machine))


def _nonce_in(folder: SearchFolder) -> str:
    file = folder.path / NONCE
    return file.read_text() if file.exists() else ""


def _files(folder: SearchFolder, index: int) -> dict[str, Path]:
    root = folder.trial(index).folder
    checkpoints = RunFolder(root).checkpoints
    return {
        str(file.relative_to(root)): file
        for file in sorted(root.rglob("*"))
        if file.is_file() and checkpoints not in file.parents
    }


def _states(folder: SearchFolder, index: int) -> dict[str, tuple[int, int]]:
    found = {name: file.stat() for name, file in _files(folder, index).items()}
    return {name: (state.st_size, state.st_mtime_ns) for name, state in found.items()}


def _part(file: Path, before: tuple[int, int] | None, now: tuple[int, int]) -> bytes:
    """What was added to a file between two states of it."""
    start = 0 if before is None else before[0]
    with file.open("rb") as opened:
        opened.seek(start)
        return opened.read(now[0] - start)

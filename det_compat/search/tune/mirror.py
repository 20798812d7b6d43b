"""The folders of trials on machines that do not see the folder of their search.

Such a machine gets what is there of a trial before it starts it, and hands back after each
validation, and now and then, what has changed since, so that the search's own machine has all of
it, as if it saw the disk. Checkpoints do not travel: they are in a storage that all machines see.

A trial of several processes has such a folder in each of them.
"""

from __future__ import annotations

import collections
import contextlib
import os
import shutil
import tempfile
import threading
import time
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
from det_compat.search.scratch import Scratch
from det_compat.search.tune import sent_code
from det_compat.search.tune.attempt import TrialTask
from det_compat.search.tune.losses import lost_machines
from det_compat.shared.durable_files import naming

# What a trial adds to at the end alone, as the search's own machine may do to the same file.
_LOGS = "log*.txt"
# Of what several processes note of a trial the first counts.
_NOTED_ONCE = {"end.json", "error.txt"}
_PERIOD = 5.0  # seconds
# A checkpoint that was begun is noted before long: what is lost with its upload can be removed.
_LOOK = 0.2


@dataclass(frozen=True)
class Changes:
    """What has become of a trial's files, by path: new ones, more of some, and none of others."""

    written: dict[str, bytes]
    added: dict[str, bytes]
    deleted: list[str]


_NO_CHANGES = Changes({}, {}, [])


class Keeper:
    """Has the code and the folder of a search, for other machines; an actor on the search's own."""

    def __init__(self, folder: SearchFolder, code: bytes) -> None:
        self._folder = folder
        self._code = code
        self._starts: dict[int, int] = {}
        self._machines: collections.defaultdict[int, list[str]] = collections.defaultdict(list)

    def begin(self, index: int, machine: str) -> int:
        """Take note that trial ``index`` starts, maybe again; the number of this start.

        Raises:
            SearchError: the process on ``machine`` that starts it was taken for lost in between.
        """
        if machine in lost_machines():
            raise SearchError(f"trial {index} starts on another machine: this one was lost")
        self._starts[index] = self._starts.get(index, 0) + 1
        return self._starts[index]

    def meet(self, index: int, start: int, machine: str) -> None:
        """Take note that one of the processes of a start of trial ``index`` is on a machine."""
        if start == self._starts.get(index):
            self._machines[index].append(machine)

    def leave(self, index: int) -> list[str]:
        """The machines of the processes of trial ``index``, which has ended there."""
        return self._machines.pop(index, [])

    def are_anywhere(self, indices: list[int]) -> bool:
        """Whether a process of one of these trials is on a machine."""
        return any(self._machines.get(index) for index in indices)

    def code(self) -> bytes:
        """The code of the trials; see ``sent_code``."""
        return self._code

    def nonce(self) -> str:
        """What a machine finds in the folder if it sees the same disk."""
        return _nonce_in(self._folder)

    def pull(self, index: int) -> dict[str, bytes]:
        """The files of trial ``index``, by path."""
        return _contents(_files(self._folder, index))

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


def start_keeper(folder: SearchFolder, code: bytes) -> Any:
    """A keeper on this machine, of which handles may be passed on."""
    (folder.path / NONCE).write_text(uuid.uuid4().hex)
    here = NodeAffinitySchedulingStrategy(_here(), soft=False)
    return ray.remote(num_cpus=0)(Keeper).options(scheduling_strategy=here).remote(folder, code)


def arrive(keeper: Any) -> Scratch | None:
    """Have this process work in a copy of the code that is its own; None where all is one machine.

    This comes before anything that may need the code is unpickled.
    """
    if keeper is None:
        return None
    scratch = Scratch()
    code = ray.get(keeper.code.remote())
    with naming(scratch.path, own_only=True):
        sent_code.unpack(code, scratch.path / "code")
    return scratch


class Mirror:
    """What a process works with: the task as it is on this machine.

    Args:
        task: the task, as the search's machine has it.
        keeper: of the search's folder; None where all is on one machine.
        scratch: what ``arrive`` has returned.
        index: the first trial.

    Raises:
        SearchError: checkpoints would be lost with this machine.
    """

    def __init__(self, task: TrialTask, keeper: Any, scratch: Scratch | None, index: int) -> None:
        self.task = task
        self._keeper: Any = keeper
        self._scratch = scratch
        self._known: dict[str, tuple[int, int]] = {}
        self._lock = threading.Lock()
        self._is_closed = threading.Event()
        self._pushes = False
        self._index, self._start = index, 0
        self._is_away = False
        if scratch is None or ray.get(keeper.nonce.remote()) == _nonce_in(task.folder):
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
            ray.get(keeper.push.remote(index, begin(keeper, index), noted))
            raise SearchError(why)
        self._is_away = True
        # What is downloaded here goes with the trial, too, if it is killed.
        temporary = scratch.path / "tmp"
        temporary.mkdir()
        os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
        self.task = replace(task, folder=SearchFolder(scratch.path), model_dir=Path.cwd())

    def pull(self, index: int, start: int | None = None) -> None:
        """Get what is there of trial ``index``, which starts here.

        Args:
            index: the trial.
            start: the number of its start, if another process has begun it.
        """
        if self._keeper is None:
            return
        begun = begin(self._keeper, index) if start is None else start
        ray.get(self._keeper.meet.remote(index, begun, _here()))
        if not self._is_away:
            return
        folder = self.task.folder.trial(index).folder
        with self._lock:
            shutil.rmtree(folder, ignore_errors=True)
            there = ray.get(self._keeper.pull.remote(index))
            with naming(folder, own_only=True):
                for name, content in there.items():
                    (folder / name).parent.mkdir(parents=True, exist_ok=True)
                    (folder / name).write_bytes(content)
            self._known = _states(_files(self.task.folder, index))
            self._index, self._start = index, begun
        if not self._pushes:
            self._pushes = True
            threading.Thread(target=self._push_now_and_then, daemon=True).start()

    def push(self) -> None:
        """Hand back what has changed of the trial that was pulled; returns when it is there."""
        if not self._is_away:
            return
        with self._lock:
            index = self._index  # While this waited for the lock, another one may have begun.
            files = _files(self.task.folder, index)
            states = _states(files)
            changed = {name for name, state in states.items() if self._known.get(name) != state}
            logs = {name for name in changed if fnmatch(name, _LOGS)}
            written = _contents({name: files[name] for name in changed - logs})
            for gone in changed - logs - written.keys():
                del states[gone]
            changes = Changes(
                written,
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

        What fails the next one does.
        """
        due = time.monotonic() + _PERIOD
        while not self._is_closed.wait(_LOOK):
            if time.monotonic() > due or self._has_begun_checkpoint():
                due = time.monotonic() + _PERIOD
                with contextlib.suppress(Exception):
                    self.push()

    def _has_begun_checkpoint(self) -> bool:
        names = RunFolder(self.task.folder.trial(self._index).folder).checkpoint_names
        return _states({names.name: names}).get(names.name) != self._known.get(names.name)


def begin(keeper: Any, index: int) -> int:
    """Have ``keeper`` take note that this process starts trial ``index``; see ``Keeper.begin``."""
    number: int = ray.get(keeper.begin.remote(index, _here()))
    return number


def _here() -> str:
    machine: str = ray.get_runtime_context().get_node_id()
    return machine


def _nonce_in(folder: SearchFolder) -> str:
    file = folder.path / NONCE
    return file.read_text() if file.exists() else ""


def _files(folder: SearchFolder, index: int) -> dict[str, Path]:
    """The files of trial ``index``, by path; any of them may be gone when it is looked at."""
    root = folder.trial(index).folder
    found = []
    for above, folders, names in os.walk(root):
        if above == str(root):
            folders[:] = [name for name in folders if root / name != RunFolder(root).checkpoints]
        found += [Path(above, name) for name in names]
    return {str(file.relative_to(root)): file for file in sorted(found) if file.is_file()}


def _states(files: dict[str, Path]) -> dict[str, tuple[int, int]]:
    found = {}
    for name, file in files.items():
        with contextlib.suppress(FileNotFoundError):
            state = file.stat()
            found[name] = state.st_size, state.st_mtime_ns
    return found


def _contents(files: dict[str, Path]) -> dict[str, bytes]:
    found = {}
    for name, file in files.items():
        with contextlib.suppress(FileNotFoundError):
            found[name] = file.read_bytes()
    return found


def _part(file: Path, before: tuple[int, int] | None, now: tuple[int, int]) -> bytes:
    """What was added to a file between two states of it."""
    start = 0 if before is None else before[0]
    with file.open("rb") as opened:
        opened.seek(start)
        return opened.read(now[0] - start)

"""The folders of trials on machines that do not see the folder of their search.

Such a machine gets what is there of a trial before it starts it, and hands back after each
validation what has changed since, so that the search's own machine has all of it, as if it saw the
disk. Checkpoints do not travel: they are in a storage that all machines see.
"""

from __future__ import annotations

import shutil
import tempfile
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from det_compat.config.experiment import parse_config
from det_compat.experiment.run_folder import RunFolder
from det_compat.search.errors import SearchError
from det_compat.search.records import NONCE, SearchFolder
from det_compat.search.tune.attempt import TrialTask


class Keeper:
    """Has the folder of a search, for machines that do not see it; an actor on one that does."""

    def __init__(self, folder: SearchFolder) -> None:
        self._folder = folder

    def nonce(self) -> str:
        """What a machine finds in the folder if it sees the same disk."""
        return _nonce_in(self._folder)

    def pull(self, index: int) -> dict[str, bytes]:
        """The files of trial ``index``, by path."""
        return {name: file.read_bytes() for name, file in _files(self._folder, index).items()}

    def push(self, index: int, files: dict[str, bytes]) -> None:
        """Put files of trial ``index`` in place; how it ended is noted once."""
        folder = self._folder.trial(index).folder
        for name, content in files.items():
            if name == "end.json" and (folder / name).exists():
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
    """What an actor works with: the task as it is on this machine.

    Args:
        task: the task, as the search's machine has it.
        keeper: of the search's folder; None where all is on one machine.
        index: the first trial.

    Raises:
        SearchError: checkpoints would be lost with this machine.
    """

    def __init__(self, task: TrialTask, keeper: Any, index: int) -> None:
        self.task = task
        self._keeper: Any = None
        self._known: dict[str, tuple[int, int]] = {}
        if keeper is None or ray.get(keeper.nonce.remote()) == _nonce_in(task.folder):
            return
        storage = parse_config(task.config).checkpoint_storage
        if storage.url is None:
            why = (
                f"this machine does not see {task.folder.path}, and checkpoint_storage is not one "
                "that all machines see: set it to s3, gcs, azure, or shared_fs with a folder that "
                "they share"
            )
            # Tune tells nobody why an actor does not start.
            ray.get(keeper.push.remote(index, {"error.txt": why.encode()}))
            raise SearchError(why)
        self._keeper = keeper
        self._scratch = Path(tempfile.mkdtemp(prefix="det-compat-search-"))
        # Ray has put the code into the working directory.
        self.task = replace(task, folder=SearchFolder(self._scratch), model_dir=Path.cwd())

    def pull(self, index: int) -> None:
        """Get what is there of trial ``index``, which starts here."""
        if self._keeper is None:
            return
        folder = self.task.folder.trial(index).folder
        shutil.rmtree(folder, ignore_errors=True)
        for name, content in ray.get(self._keeper.pull.remote(index)).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        self._known = _states(self.task.folder, index)

    def push(self, index: int) -> None:
        """Hand back what has changed of trial ``index``; returns when it is there."""
        if self._keeper is None:
            return
        states, files = _states(self.task.folder, index), _files(self.task.folder, index)
        changed = {
            name: files[name].read_bytes()
            for name, state in states.items()
            if self._known.get(name) != state
        }
        ray.get(self._keeper.push.remote(index, changed))
        self._known = states

    def close(self) -> None:
        """Leave nothing on this machine."""
        if self._keeper is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)


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

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from det_compat.adapters.data.loader_workers import with_lasting_workers
from tests import preloaded
from tests.fresh_python import python


class Pids(Dataset[Any]):
    def __len__(self) -> int:
        return 6

    def __getitem__(self, index: int) -> int:
        return os.getpid()


def mark(worker_id: int) -> None:
    torch.manual_seed(worker_id)


def test_a_loader_without_workers_is_left_as_it_is() -> None:
    loader = DataLoader(Pids())
    assert with_lasting_workers(loader) is loader
    assert with_lasting_workers([1]) == [1]


@pytest.mark.usefixtures("spawned_by_fork")
@pytest.mark.parametrize("context", [None, "spawn"])
def test_workers_outlive_signals_and_end_with_the_loader(context: Any) -> None:
    loader = DataLoader(Pids(), num_workers=1, worker_init_fn=mark, multiprocessing_context=context)
    lasting = with_lasting_workers(loader)
    assert loader.worker_init_fn is mark
    iterator = iter(lasting)
    pid = int(next(iterator))
    for number in (signal.SIGTERM, signal.SIGINT):
        os.kill(pid, number)
        time.sleep(0.1)
    assert [int(found) for found in iterator] == [pid] * 5
    del iterator
    for _ in range(100):
        if not alive(pid):
            return
        time.sleep(0.1)
    raise AssertionError("the worker goes on")


EXITS = """
from torch.utils.data import DataLoader
from det_compat.adapters.data.loader_workers import with_lasting_workers

if __name__ == "__main__":
    iterator = iter(with_lasting_workers(DataLoader([1, 2], num_workers=1, {arguments})))
    next(iterator)
    __import__("sys").referred_to = iterator
"""


@pytest.mark.parametrize(
    "arguments",
    [
        "persistent_workers=True",
        *(
            pytest.param(each, marks=pytest.mark.thorough)
            for each in ("", "multiprocessing_context='spawn'")
        ),
    ],
)
def test_a_process_exits_whose_loader_is_still_referred_to(tmp_path: Path, arguments: str) -> None:
    (tmp_path / "script.py").write_text(EXITS.format(arguments=arguments))
    done = python("script.py", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


class Raises(Dataset[Any]):
    """Its worker has an exception shown, as multiprocessing's thread for tensors does."""

    def __init__(self, error: Exception, *, in_thread: bool) -> None:
        self.error, self.in_thread = error, in_thread

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> int:
        arguments = (type(self.error), self.error, None)
        thread = threading.Thread(target=lambda: sys.excepthook(*arguments))
        if self.in_thread:
            thread.start()
            thread.join()
        else:
            thread.run()
        return index


# A process in which Ray runs has threads, and a worker that it forks may wait for their locks.
UNASKED = """
from torch.utils.data import DataLoader
from det_compat.adapters.data.loader_workers import with_lasting_workers
from tests.adapters.data.test_loader_workers import Raises

data = Raises({error!r}, in_thread={in_thread})
print(*with_lasting_workers(DataLoader(data, num_workers=1, batch_size=None)))
"""


@pytest.mark.parametrize("in_thread", [False, True])
@pytest.mark.parametrize("error", [ConnectionResetError("reset"), ValueError("other")])
def test_a_worker_does_not_tell_that_nobody_asks_for_a_tensor(
    error: Exception, in_thread: bool, tmp_path: Path
) -> None:
    done = preloaded.python("-c", UNASKED.format(error=error, in_thread=in_thread), cwd=tmp_path)
    assert done.stdout == "0\n", done.stderr
    is_told = str(error) in done.stderr
    assert is_told is not (in_thread and isinstance(error, ConnectionError))


KILLED = """
import os, signal
from torch.utils.data import DataLoader
from det_compat.adapters.data.loader_workers import with_lasting_workers

class Large:
    def __len__(self):
        return 1000

    def __getitem__(self, index):
        return str(os.getpid()), "x" * 2**20

iterator = iter(with_lasting_workers(DataLoader(Large(), num_workers=2)))
print(*[next(iterator)[0][0] for _ in range(2)], flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_workers_end_when_their_process_is_killed(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(KILLED)
    done = preloaded.python("script.py", cwd=tmp_path)
    pids = [int(word) for word in done.stdout.split()]
    assert done.returncode != 0 and len(pids) == 2
    for _ in range(40):
        if not any(map(alive, pids)):
            return
        time.sleep(0.1)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    raise AssertionError("workers go on")


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True

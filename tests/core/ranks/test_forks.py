from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import pytest

from det_compat.core.ranks import forks
from tests.preloaded import python

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/task").is_dir(), reason="threads cannot be looked at"
)


def comes_to_rest(thread: threading.Thread) -> bool:
    """Whether a thread rests within a minute; one that was joined is still ending for a moment."""
    until = time.monotonic() + 60
    while forks._is_at_work(str(thread.native_id)) and time.monotonic() < until:
        time.sleep(0.001)
    return not forks._is_at_work(str(thread.native_id))


def test_a_thread_is_at_work_or_rests() -> None:
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    assert comes_to_rest(thread)
    end.set()
    thread.join()
    assert comes_to_rest(thread)
    assert forks._is_at_work(str(threading.get_native_id()))


def test_threads_at_work_are_waited_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []

    def works_at_first(thread: str) -> bool:
        looks.append(thread)
        return len(looks) < 4

    monkeypatch.setattr(forks, "_SECONDS", 60)
    monkeypatch.setattr(forks, "_is_at_work", works_at_first)
    end = threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    forks.wait_for_threads()
    assert len(looks) >= 4 and str(threading.get_native_id()) not in looks
    monkeypatch.setattr(forks, "_SECONDS", 0.05)
    monkeypatch.setattr(forks, "_is_at_work", lambda it: True)
    forks.wait_for_threads()
    end.set()
    thread.join()


WORKERS = """
from torch.utils.data import DataLoader
from det_compat.adapters.data.loader_workers import with_lasting_workers
with_lasting_workers(DataLoader([1], num_workers=1))
"""
RANKS = """
import tempfile
import torch.distributed as dist
from det_compat.core.ranks.process_groups import GroupExchange
dist.init_process_group("gloo", init_method="file://" + tempfile.mktemp(), rank=0, world_size=1)
GroupExchange(0, 0, dist.group.WORLD)
"""
FORK = """
import os
from det_compat.core.ranks import forks
waits = []
forks.wait_for_threads = lambda: waits.append(1)
{}
if os.fork() == 0:
    os._exit(0)
os.wait()
print("waits:", len(waits))
"""


@pytest.mark.parametrize("code", [WORKERS, RANKS, RANKS + WORKERS])
def test_forks_wait_once_where_there_may_be_threads_of_gloo(code: str, tmp_path: Path) -> None:
    found = python("-c", FORK.format(code), cwd=tmp_path)
    assert f"waits: {int(sys.version_info < (3, 12))}" in found.stdout, found.stderr

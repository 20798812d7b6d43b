"""Leaves the process as each test found it, since any other test may be the next one in it.

The order of the tests, and what pytest-xdist runs in one process, are set here, too.
"""

from __future__ import annotations

import gc
import logging
import multiprocessing.spawn
import os
import signal
import sys
import sysconfig
from collections.abc import Iterator
from multiprocessing import resource_tracker
from pathlib import Path

import pytest

from tests.preloaded import executable, spare_the_machine

spare_the_machine()
# A shell has what it starts in the background ignore Ctrl-C, and processes inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)
_HANDLERS = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
_KEPT = tuple(
    str(path)
    for path in (
        *(Path(__file__).parents[1] / name for name in ("adapters", "det_compat", "tests")),
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    )
)

# Groups of pytest-xdist, and files: what takes longest comes first, so that no worker is left alone
# with it at the end. Searches wait for Ray most of the time, while another worker computes.
_LONGEST = (
    "parity-2",
    "search commands",
    "tests/resume/test_resume",
    "tests/adapters/lightning/test_door",
    "ray",
    "parity-1",
    "documented commands",
    "tests/script/test_run",
    "documented examples",
    "tests/adapters/experiment/test_cli",
    "tests/adapters/data/test_loader_workers",
    "tests/check/test_scale",
    "two ranks",
    "tests/adapters/experiment/test_several_machines",
    "tests/alias/test_alias",
    "pedl-parity",
    "package",
    "tests/adapters/experiment/test_unsized",
    "tests/adapters/lightning/test_lightning_page",
    "tests/attacks/test_attacks",
    "tests/adapters/verify/test_verdict",
    "tests/migrate/test_verification",
)


# A run of all tests has so many cases of each test in these folders, where there are thousands;
# `make thorough`, and a run that names its files, has all of them.
_CASES = 3
_OF_MANY_CASES = ("tests/migrate/", "tests/adapters/", "tests/resume/")
_IS_WHOLE = "DET_COMPAT_TESTS_ALL"


def pytest_configure(config: pytest.Config) -> None:
    """Tell the workers of pytest-xdist, which are given files by name, whether the run was."""
    if not hasattr(config, "workerinput"):
        is_named = config.args_source is pytest.Config.ArgsSource.ARGS
        os.environ[_IS_WHOLE] = "" if is_named else "1"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have the tests of a file run in one process, so that its fixtures are made once."""
    if os.environ.get(_IS_WHOLE):
        _keep_some_cases(items)
    for item in items:
        if item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.nodeid.partition(".py")[0]))
    items.sort(key=_order)


def _keep_some_cases(items: list[pytest.Item]) -> None:
    """Leave all but the first, the last and some cases between to the thorough run."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.nodeid.startswith(_OF_MANY_CASES):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for found in cases.values():
        last = len(found) - 1
        kept = {round(last * each / (_CASES - 1)) for each in range(_CASES)}
        for index, item in enumerate(found):
            if index not in kept:
                item.add_marker(pytest.mark.thorough)


def pytest_collection_finish() -> None:
    """Leave what has been imported out of the garbage collections of all tests."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """Look for cycles once, for what their ends say: pytest would five times, and Python again."""
    gc.collect()
    gc.freeze()


def _order(item: pytest.Item) -> int:
    marker = item.get_closest_marker("xdist_group")
    assert marker is not None
    group = marker.args[0]
    return _LONGEST.index(group) if group in _LONGEST else len(_LONGEST)


@pytest.fixture(autouse=True)
def process_as_found() -> Iterator[None]:
    """Undo what a trial, or a command run inside the process, did to it."""
    modules, path, environ = {*sys.modules}, [*sys.path], {**os.environ}
    cwd = os.getcwd()
    _as_at_first()  # a fixture of a module may have run a training already
    yield
    _as_at_first()
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environ)
    sys.path[:] = path
    for name in {*sys.modules} - modules:
        if _is_of_a_user(name):
            del sys.modules[name]


@pytest.fixture
def spawned_by_fork() -> Iterator[None]:
    """Have multiprocessing spawn processes as ``tests.preloaded`` starts them.

    They get what "spawn" gives a process, and nothing else of this one, but have imported torch.
    """
    resource_tracker.ensure_running()
    before = multiprocessing.spawn.get_executable()
    multiprocessing.set_executable(executable())
    yield
    multiprocessing.set_executable(before)


def _as_at_first() -> None:
    logging.getLogger("determined").setLevel(logging.NOTSET)
    for number, handler in _HANDLERS.items():
        if handler is not None:  # one that Python did not install
            signal.signal(number, handler)


def _is_of_a_user(name: str) -> bool:
    file = getattr(sys.modules[name], "__file__", None)
    return file is not None and not file.startswith(_KEPT)

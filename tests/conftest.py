"""Leaves the process as each test found it, since any other test may be the next one in it."""

from __future__ import annotations

import logging
import os
import signal
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

_HANDLERS = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
_KEPT = tuple(
    str(path)
    for path in (
        *(Path(__file__).parents[1] / name for name in ("adapters", "det_compat", "tests")),
        *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    )
)


@pytest.fixture(autouse=True)
def process_as_found() -> Iterator[None]:
    """Undo what a trial, or a command run inside the process, did to it."""
    modules, path, environ = {*sys.modules}, [*sys.path], {**os.environ}
    cwd, level = os.getcwd(), logging.getLogger("determined").level
    _handle_signals_as_at_first()  # a fixture of a module may have run a training already
    yield
    _handle_signals_as_at_first()
    logging.getLogger("determined").setLevel(level)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environ)
    sys.path[:] = path
    for name in {*sys.modules} - modules:
        if _is_of_a_user(name):
            del sys.modules[name]


def _handle_signals_as_at_first() -> None:
    for number, handler in _HANDLERS.items():
        if handler is not None:  # one that Python did not install
            signal.signal(number, handler)


def _is_of_a_user(name: str) -> bool:
    file = getattr(sys.modules[name], "__file__", None)
    return file is not None and not file.startswith(_KEPT)

"""The TensorBoard directory of the run that is going on in this process."""

from __future__ import annotations

import contextlib
import datetime
import itertools
import os
import socket
from collections.abc import Iterator
from pathlib import Path

_active: list[Path] = []
_shared_runs = itertools.count()


def new_tensorboard_path() -> Path:
    """A directory under ``./runs`` for a run that starts now; nothing is created yet."""
    # The name has microseconds, because a script may start several runs in a second.
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S-%f")
    return Path("runs") / f"{stamp}-{socket.gethostname()}-{os.getpid()}"


def shared_tensorboard_path() -> Path:
    """As ``new_tensorboard_path``, the same one for all processes that one launcher has started."""
    name = f"{socket.gethostname()}-{os.getppid()}-{next(_shared_runs)}"
    return Path("runs") / name


def current_tensorboard_path() -> Path:
    """The directory of the innermost run in this process, a new one if none is going on."""
    return _active[-1] if _active else new_tensorboard_path()


@contextlib.contextmanager
def tensorboard_path_is(path: Path) -> Iterator[None]:
    """Make ``path`` the current directory of TensorBoard files for the enclosed run."""
    _active.append(path)
    try:
        yield
    finally:
        _active.remove(path)

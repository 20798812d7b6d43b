"""A command and the processes that it has started, where ``/proc`` tells of them."""

from __future__ import annotations

import contextlib
import os
from collections import defaultdict
from collections.abc import Iterator

_PROCESSES = "/proc"


def send_signal(pid: int, number: int) -> None:
    """Send a signal to those that handle it, of a process and all below it.

    A shell ends at a signal and leaves what it has started behind, and so does a Python whose ranks
    are processes of its own: it is the first on each way down that has a handler that gets it. What
    is below one of those is its own affair. If none has a handler, all get it.

    Args:
        pid: the process.
        number: the signal.
    """
    below = _children()
    found = list(_handling(pid, number, below)) or list(_all(pid, below))
    for one in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(one, number)


def with_variable(name: str, value: str) -> list[int]:
    """The processes of this user that were started with a variable in their environment."""
    wanted = f"{name}={value}".encode()
    return [pid for pid in _pids() if wanted in _read(f"{pid}/environ").split(b"\0")]


def _handling(pid: int, number: int, below: dict[int, list[int]]) -> Iterator[int]:
    if _handles(pid, number):
        yield pid
        return
    for child in below[pid]:
        yield from _handling(child, number, below)


def _all(pid: int, below: dict[int, list[int]]) -> Iterator[int]:
    yield pid
    for child in below[pid]:
        yield from _all(child, below)


def _children() -> dict[int, list[int]]:
    """The processes of this machine, by the one that has started them."""
    found: dict[int, list[int]] = defaultdict(list)
    for pid in _pids():
        if parent := _status(pid).get("PPid"):
            found[int(parent)].append(pid)
    return found


def _handles(pid: int, number: int) -> bool:
    return bool(int(_status(pid).get("SigCgt", "0"), 16) >> (number - 1) & 1)


def _status(pid: int) -> dict[str, str]:
    """What the kernel tells of a process; nothing of one that has ended."""
    lines = _read(f"{pid}/status").decode(errors="replace").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _pids() -> list[int]:
    found = os.listdir(_PROCESSES) if os.path.isdir(_PROCESSES) else []
    return [int(name) for name in found if name.isdecimal()]


def _read(name: str) -> bytes:
    try:
        with open(f"{_PROCESSES}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""

"""Signals to a command and to what it has started, where ``/proc`` tells of both."""

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
    if os.path.isdir(_PROCESSES):
        for name in filter(str.isdecimal, os.listdir(_PROCESSES)):
            if parent := _status(int(name)).get("PPid"):
                found[int(parent)].append(int(name))
    return found


def _handles(pid: int, number: int) -> bool:
    return bool(int(_status(pid).get("SigCgt", "0"), 16) >> (number - 1) & 1)


def _status(pid: int) -> dict[str, str]:
    """What ``/proc/PID/status`` tells; nothing of a process that has ended."""
    try:
        with open(f"{_PROCESSES}/{pid}/status", encoding="utf-8", errors="replace") as file:
            lines = [line.partition(":") for line in file]
    except OSError:
        return {}
    return {name: value.strip() for name, _, value in lines}

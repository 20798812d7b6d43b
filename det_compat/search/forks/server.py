"""What forks: a process that has imported modules, runs no code of users, and waits for requests.

Each fork is as a new interpreter would be that has imported the same modules: it has random states,
signal handlers, a session and a standard input of its own. A process that may not fork runs one
request itself.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import json
import logging
import os
import pkgutil
import random
import select
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle
from typing import Any

from det_compat.search.forks import fork_safety, imports

#: Takes the bytes of a request and the connection to who has made it; what it raises is passed on.
Target = Callable[[bytes, Connection], None]

_KILL_AT_PARENTS_DEATH = 1  # PR_SET_PDEATHSIG of Linux


def serve() -> None:
    """Serve the process at the other end of the standard input, a socket, until it is gone."""
    control: Connection[Any, Any] = Connection(taken_input())
    start = json.loads(control.recv_bytes())
    begin(start["path"])
    if not start["forks"]:
        end_with_parent()
        _run(*_request(control, json.loads(control.recv_bytes())), None)
    gc.disable()
    for name in start["preload"]:
        importlib.import_module(name)
    gc.freeze()
    gc.enable()
    serve_forks(control)


def taken_input() -> int:
    """The descriptor of what was the standard input, which is empty from now on."""
    taken = os.dup(0)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.close(null)
    return taken


def begin(path: Sequence[str]) -> None:
    """Prepare for imports, which are looked for in ``path``."""
    sys.path[:] = path
    # Lightning looks at the root logger while it is imported.
    logging.basicConfig(level=logging.INFO, stream=sys.stderr)


def serve_forks(control: Connection) -> None:
    """Fork for each request that comes through ``control``, until nobody is there any more."""
    with contextlib.suppress(EOFError, ConnectionError):
        problem = fork_safety.why_not_to_fork()
        control.send_bytes(problem.encode())
        while problem == "":
            asked = json.loads(control.recv_bytes())
            if "learn" in asked:
                problem = imports.learn(**asked["learn"])
                control.send_bytes(problem.encode())
            elif "run" in asked:
                _fork(control, *_request(control, asked))


def _request(control: Connection, asked: dict[str, str]) -> tuple[str, bytes, Connection]:
    return asked["run"], control.recv_bytes(), Connection(recv_handle(control))


def _fork(control: Connection, target: str, payload: bytes, channel: Connection) -> None:
    """Fork, and say with which status the fork has ended; it ends with this process."""
    gc.freeze()
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    handler = signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
    server, before = os.getpid(), dict(os.environ)
    process = os.fork()
    if process == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, handler)
        for descriptor in (woken, wakes, control.fileno()):
            os.close(descriptor)
        _begin(server)
        _run(target, payload, channel, before)
    channel.close()
    status = _wait(control, woken, process)
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, handler)
    os.close(woken)
    os.close(wakes)
    with contextlib.suppress(OSError):
        control.send_bytes(str(status).encode())


def _wait(control: Connection, woken: int, process: int) -> int:
    """The status of a fork that has ended, or was killed since somebody asks for it, or is gone."""
    while True:
        ready = select.select([control.fileno(), woken], [], [])[0]
        if control.fileno() in ready:
            _kill_group(process)
            with contextlib.suppress(EOFError, OSError):
                control.recv_bytes()
            return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        os.read(woken, 1000)
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            # What it has started and left behind would keep its memory and its devices.
            _kill_group(process)
            return os.waitstatus_to_exitcode(status)


def _kill_group(process: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process, signal.SIGKILL)


def _begin(server: int) -> None:
    """Give a fork what an interpreter has of its own when it starts."""
    os.setsid()
    end_with_parent()
    if os.getppid() != server:
        os._exit(1)
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()


def end_with_parent() -> None:
    """Have this process killed when its parent is; on other systems than Linux, it is not."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_KILL_AT_PARENTS_DEATH, signal.SIGKILL)


def _run(
    target: str, payload: bytes, channel: Connection, before: Mapping[str, str] | None
) -> None:
    """Run a request, and end this process; ``before`` is the environment that a fork began with."""
    known = set(sys.modules)
    status = 0
    last: dict[str, Any] = {"ended": True}
    try:
        function: Target = pkgutil.resolve_name(target)
        function(payload, channel)
    except SystemExit:
        pass
    except BaseException:
        status, last = 1, {"failed": traceback.format_exc()}
    with contextlib.suppress(OSError):
        if before is not None:
            learned = imports.learned(known, before)
            channel.send_bytes(json.dumps({"learned": learned}).encode())
        channel.send_bytes(json.dumps(last).encode())
    _end(status)


def _end(status: int) -> None:
    """End as an interpreter does, but for freeing every object, which takes half a second."""
    try:
        # This waits for threads, as multiprocessing does at the end of its forks.
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    finally:
        os._exit(status)

"""A process that has imported what the trials of this machine import, and forks servers for them.

It imports once for all, while Ray starts. An actor whose own server might import something else,
since its environment differs, starts one.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import logging
import os
import re
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import Any

from det_compat.search.forks import fork_safety, imports, server
from det_compat.search.forks.client import OOM_SCORE, short
from det_compat.search.forks.imports import Imports
from det_compat.search.scratch import Scratch

_LOG = logging.getLogger(__name__)
_PROGRAM = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from det_compat.search.forks.template import serve
serve()
"""
_PATIENCE = 10  # seconds
# Ray, Tune and the shells between set these for workers; nothing that is imported before code of
# users looks at them.
_OF_WORKERS = re.compile(
    "RAY_.*|TUNE_.*|PL_DISABLE_FORK|PYTHONBREAKPOINT|SPT_NOENV|PWD|OLDPWD|SHLVL|_"
)


@contextlib.contextmanager
def template(needed: Imports, environ: Mapping[str, str]) -> Iterator[str]:
    """Have a template for the block.

    Its forks look for modules where this process does.

    Args:
        needed: what it imports.
        environ: its environment, which is to be that of the actors.

    Yields:
        its address, for ``client.Branch``; "" if there is none, and each actor imports by itself.
    """
    address = ""
    with contextlib.ExitStack() as stack:
        if sys.platform.startswith("linux"):
            try:
                address = stack.enter_context(_started(needed, environ))
            except OSError as error:  # A full disk, say.
                _LOG.warning("each trial imports by itself, which takes seconds: %s", error)
        yield address


@contextlib.contextmanager
def _started(needed: Imports, environ: Mapping[str, str]) -> Iterator[str]:
    with contextlib.closing(Scratch()) as scratch:
        address = str(scratch.path / "t")
        with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as owner:
            with short(address) as shorter:
                listener.bind(shorter)
                listener.listen()
                # The first one that connects owns the template, which ends when it does.
                owner.connect(shorter)
            process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, json.dumps(sys.path)],
                stdin=listener.fileno(),
                # What imports print is in no trial's log either.
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=environ,
                start_new_session=True,
            )
            control: Connection[Any, Any] = Connection(owner.detach())
        start = {"path": sys.path, "preload": needed.preload, "learn": needed.learned_first()}
        with control:
            try:
                control.send_bytes(json.dumps(start).encode())
                yield address
            finally:
                process.kill()
                process.wait()


def serve() -> None:
    """Serve all that connect to the standard input, a socket, until the first of them is gone."""
    listener = socket.socket(fileno=server.taken_input())
    owner: Connection[Any, Any] = Connection(listener.accept()[0].detach())
    start = json.loads(owner.recv_bytes())
    server.end_with_parent()
    server.begin(start["path"])
    environ = dict(os.environ)
    gc.disable()
    problem = _imported(start)
    gc.freeze()
    gc.enable()
    # Nobody waits for its forks, whose ends their own clients see.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    both: list[Any] = [owner, listener]
    while owner not in select.select(both, [], [])[0]:
        client, output = _connected(listener)
        # Who is gone again needs nothing.
        with contextlib.suppress(EOFError, OSError):
            asked = json.loads(client.recv_bytes()) if client.poll(_PATIENCE) else {}
            unlike = _unlike(environ, asked.get("environ", {}))
            if why := problem or _why_not_to_share(unlike):
                client.send_bytes(why.encode())
            elif os.fork() == 0:
                owner.close()
                listener.close()
                _serve_fork(client, asked, unlike, output)
        client.close()
        for descriptor in output:
            os.close(descriptor)


def _serve_fork(
    client: Connection[Any, Any],
    asked: Mapping[str, Any],
    unlike: Mapping[str, str | None],
    output: Sequence[int],
) -> None:
    """Serve a client in this fork, and end it."""
    try:
        _become(asked, unlike, output)
        server.serve_forks(client)
    finally:
        os._exit(0)


def _connected(listener: socket.socket) -> tuple[Connection[Any, Any], list[int]]:
    """The next client, and its output."""
    with listener.accept()[0] as client:
        client.settimeout(_PATIENCE)
        output: list[int] = []
        with contextlib.suppress(OSError):
            output = socket.recv_fds(client, 1, 2)[1]
        client.settimeout(None)
        return Connection(client.detach()), output


def _imported(start: Mapping[str, Any]) -> str:
    """Import what trials do; says why forks would not be exact, "" if they are."""
    for name in start["preload"]:
        try:
            importlib.import_module(name)
        except Exception as error:
            return f"{name} cannot be imported: {error!r}"
    return fork_safety.why_not_to_fork() or imports.learn(**start["learn"])


def _unlike(environ: Mapping[str, str], its: Mapping[str, str]) -> dict[str, str | None]:
    """The variables that are others in ``its``, with their values there."""
    names = {name for name in {*environ, *its} if environ.get(name) != its.get(name)}
    return {name: its.get(name) for name in names}


def _why_not_to_share(unlike: Collection[str]) -> str:
    """Why a process with another value of these variables may import something else."""
    names = [name for name in unlike if not _OF_WORKERS.fullmatch(name)]
    return f"the actor has another {', '.join(sorted(names))}" if names else ""


def _become(
    asked: Mapping[str, Any], unlike: Mapping[str, str | None], output: Sequence[int]
) -> None:
    """Have what a process inherits that the client starts; see ``client.Branch``."""
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for name, value in unlike.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    os.chdir(asked["cwd"])
    os.setpriority(os.PRIO_PROCESS, 0, asked["niceness"])
    with contextlib.suppress(OSError), open(OOM_SCORE, "w") as score:
        score.write(asked["oom_score"])
    for descriptor, stream in zip(output, (1, 2), strict=True):
        os.dup2(descriptor, stream)
        os.close(descriptor)

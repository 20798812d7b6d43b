"""A process that has imported what all trials need, and from which those begin that fork trials.

It imports while a search and Ray still start, and once for all actors of its machine. Its forks do
what ``det_compat.search.forks.server`` says, each for one actor, in that one's place.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import recv_handle
from typing import Any

from det_compat.search.forks import server

_PROGRAM = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from det_compat.search.forks.template import serve
serve()
"""
# What Ray sets in the processes of actors, and no import of a library asks for.
_OF_RAY = ("RAY_", "SPT_", "TUNE_")
_OF_NO_IMPORT = {
    *("PYTHONPATH", "PYTHONBREAKPOINT", "PL_DISABLE_FORK", "CRC32C_SW_MODE"),
    *("CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"),
}


class Template:
    """Starts the process; it ends with this object, or with the process that has made it.

    Args:
        preload: the modules that it imports.
        variables: environment variables that it is to have beside those of this process.
    """

    def __init__(self, preload: Sequence[str], variables: Mapping[str, str]) -> None:
        #: Where actors find it. It is no file, and goes with the process.
        self.address = f"det-compat-{secrets.token_hex(16)}"
        ours, its = socket.socketpair()
        self._control: Connection[Any, Any] = Connection(ours.detach())
        with its:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, json.dumps(sys.path)],
                stdin=its.fileno(),
                env={**os.environ, **variables},
                start_new_session=True,
            )
        start = {"address": self.address, "preload": list(preload)}
        with contextlib.suppress(OSError):
            self._control.send_bytes(json.dumps(start).encode())

    def close(self) -> None:
        """End it; what has begun from it goes on."""
        self._control.close()
        self._process.kill()
        self._process.wait()


def connected(address: str) -> socket.socket:
    """A connection with a new fork of the template at ``address``.

    Raises:
        OSError: there is none that belongs to this user.
    """
    with socket.socket(socket.AF_UNIX) as its:
        its.connect(f"\0{address}")
        if _user_of(its) != os.getuid():
            raise PermissionError(f"{address} is another user's")
        return its.dup()


def serve() -> None:
    """Be a template for the process at the other end of the standard input, until it is gone."""
    control = server.take_input()
    start = json.loads(control.recv_bytes())
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"\0{start['address']}")
        listener.listen()
        before = dict(os.environ)
        server.import_all(start["preload"])
        by_imports = {name: it for name, it in os.environ.items() if it != before.get(name)}
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while control not in wait([control, listener]):
            actor = listener.accept()[0]
            if _user_of(actor) == os.getuid() and os.fork() == 0:
                listener.close()
                control.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                _serve_actor(Connection(actor.detach()), before, by_imports)
            actor.close()
    os._exit(0)


def _serve_actor(
    control: Connection[Any, Any], before: Mapping[str, str], by_imports: Mapping[str, str]
) -> None:
    """Be what forks for an actor, as if it had started this process, and end.

    Args:
        control: the actor.
        before: the variables that the template has begun with.
        by_imports: those that its imports have set.
    """
    status = 1
    try:
        server.begin_anew()
        control.send_bytes(str(os.getpid()).encode())
        start = json.loads(control.recv_bytes())
        for descriptor in (1, 2):
            theirs = recv_handle(control)
            os.dup2(theirs, descriptor)
            os.close(theirs)
        sys.path[:] = start["path"]
        os.chdir(start["directory"])
        if unlike := _unlike(before, start["variables"]):
            control.send_bytes(f"{', '.join(unlike)} are others than when it began".encode())
        else:
            os.environ.clear()
            os.environ.update({**start["variables"], **by_imports})
            server.serve_forks(control)
        status = 0
    finally:
        os._exit(status)


def _unlike(before: Mapping[str, str], variables: Mapping[str, str]) -> list[str]:
    """The names of variables that imports may ask for, and that are not the same."""
    names = {name for name in {*variables, *before} if not name.startswith(_OF_RAY)}
    return sorted(name for name in names - _OF_NO_IMPORT if variables.get(name) != before.get(name))


def _user_of(peer: socket.socket) -> int:
    found = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    user: int = struct.unpack("3i", found)[1]
    return user

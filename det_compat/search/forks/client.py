"""Requests, and the process in whose forks they run."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import send_handle
from typing import Any

_PROGRAM = """
import json, sys
sys.path[:] = json.loads(sys.argv[1])
from det_compat.search.forks.server import serve
serve()
"""
#: How soon Linux kills a process when memory runs out; Ray wants it to be soon for its workers.
OOM_SCORE = "/proc/self/oom_score_adj"
_PATIENCE = 10  # seconds for a process that nobody needs any more to end
_PERIOD = 0.5  # seconds between two looks at a process that tells nobody of its end


class ProcessDied(RuntimeError):
    """A process has ended before it said how its request did."""


class Alone:
    """A new process for a single request; see ``det_compat.search.forks.server``.

    It starts with this process' environment, working directory and module search path.

    Args:
        preload: the modules that it imports.
    """

    forks = False

    def __init__(self, preload: Sequence[str]) -> None:
        ours, its = socket.socketpair()
        with its:
            self._process = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM, json.dumps(sys.path)],
                # Not every stand-in for an interpreter passes on other descriptors.
                stdin=its.fileno(),
                start_new_session=True,
            )
        self._control: Connection[Any, Any] = Connection(ours.detach())
        self._send({"path": sys.path, "preload": list(preload), "forks": self.forks})

    def request(self, target: str, payload: bytes) -> Request:
        """Start a request.

        Raises:
            ProcessDied: there is nobody to serve it.
        """
        ours, its = Pipe()
        with its:
            try:
                self._control.send_bytes(json.dumps({"run": target}).encode())
                self._control.send_bytes(payload)
                send_handle(self._control, its.fileno(), 0)  # Only Windows asks whose it will be.
            except OSError:
                ours.close()
                raise ProcessDied(self._died()) from None
        return Request(self, ours)

    def wait(self, channel: Connection[Any, Any], seconds: float) -> bool:
        """Wait until something is said through ``channel``, or its request has ended.

        Returns whether it has ended, and all that it has said is there.
        """
        wait([channel], seconds)
        return self._process.poll() is not None

    def end_request(self, patience: float) -> None:
        """Wait until the request has ended, and kill it after ``patience`` seconds."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(patience)
        self.close()

    def close(self) -> None:
        """End it, with all that it has started."""
        self._control.close()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _send(self, content: Mapping[str, Any]) -> None:
        with contextlib.suppress(OSError):
            self._control.send_bytes(json.dumps(content).encode())

    def _died(self) -> str:
        return f"its process ended with status {self._process.wait()}"


class Server(Alone):
    """A process that forks for each request."""

    forks = True

    def __init__(self, preload: Sequence[str]) -> None:
        super().__init__(preload)
        self._problem: str | None = None

    def problem(self) -> str:
        """Why it cannot fork, "" if it can; waits until that is known."""
        if self._problem is None:
            self._problem = self._answer()
        return self._problem

    def learn(self, learned: Mapping[str, Any]) -> str:
        """Have it import what a request did; says why it cannot fork any more, "" if it can."""
        self._send({"learn": learned})
        self._problem = self._answer()
        return self._problem

    def wait(self, channel: Connection[Any, Any], seconds: float) -> bool:
        """See ``Alone.wait``; it says when a fork has ended."""
        wait([channel, self._control], seconds)
        return self._control.poll()

    def end_request(self, patience: float) -> None:
        """Wait until the fork has ended, and kill it after ``patience`` seconds."""
        if not self._control.poll(patience):
            self._send({})
        self._answer()

    def close(self) -> None:
        """End it; it kills its fork."""
        self._control.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_PATIENCE)
        super().close()

    def _answer(self) -> str:
        try:
            return self._control.recv_bytes().decode()
        except (EOFError, OSError):
            return self._died()


class Branch(Server):
    """A server that a template has forked for this process; see ``template``.

    Args:
        template: the address.
    """

    def __init__(self, template: str) -> None:
        its = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(OSError), short(template) as address:
            its.connect(address)
            socket.send_fds(its, [b" "], [1, 2])
        self._control = Connection(its.detach())
        self._problem = None
        # With them it has all that a process inherits which this one starts.
        with open(OOM_SCORE) as score:
            own = {"environ": dict(os.environ), "cwd": os.getcwd(), "oom_score": score.read()}
        self._send({**own, "niceness": os.getpriority(os.PRIO_PROCESS, 0)})

    def close(self) -> None:
        """End it; it kills its fork."""
        self._control.close()

    def _died(self) -> str:
        return "its process has ended"


@contextlib.contextmanager
def short(address: str) -> Iterator[str]:
    """The address of a socket as Linux takes it: in 107 bytes, wherever its folder is.

    Raises:
        OSError: the folder is gone.
    """
    folder = os.open(os.path.dirname(address), os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{folder}/{os.path.basename(address)}"
    finally:
        os.close(folder)


class Request:
    """A request that a process works on.

    Args:
        server: that process, or the one that has forked it.
        channel: what it speaks through.
    """

    def __init__(self, server: Alone, channel: Connection[Any, Any]) -> None:
        self._server = server
        self._channel = channel
        #: What it has imported and changed, once it has ended in good order.
        self.learned: dict[str, Any] | None = None

    def receive(self) -> dict[str, Any] | None:
        """What it says next; None at its end.

        Raises:
            ProcessDied: it has ended and has not said why.
            RuntimeError: it has raised something.
        """
        said = self._next(None)
        if said is not None and "learned" in said:
            self.learned = said["learned"]
            said = self._next(None)
        if said is None:
            raise ProcessDied("the trial's process died")
        if "failed" in said:
            raise RuntimeError(said["failed"])
        return None if "ended" in said else said

    def _next(self, until: float | None) -> dict[str, Any] | None:
        """What it says until a time; None if that is nothing, or nothing any more."""
        has_ended = False
        while not (has_ended or (until is not None and time.monotonic() > until)):
            # Processes that it has started keep the channel open: it alone would not tell the end.
            has_ended = self._server.wait(self._channel, _PERIOD)
            with contextlib.suppress(EOFError, OSError):
                if self._channel.poll():
                    said: dict[str, Any] = json.loads(self._channel.recv_bytes())
                    return said
        return None

    def answer(self, goes_on: bool) -> None:
        """Answer what it has said."""
        with contextlib.suppress(OSError):
            self._channel.send_bytes(json.dumps(goes_on).encode())

    def end(self, patience: float) -> None:
        """Have it end, and wait; after ``patience`` seconds it is killed."""
        self.answer(False)
        until = time.monotonic() + patience
        while said := self._next(until):
            self.learned = said.get("learned", self.learned)
            if "failed" in said or "ended" in said:
                break
        self._server.end_request(max(0.0, until - time.monotonic()))
        self._channel.close()

"""Word of a process of the run that has ended before its time.

Collectives do not always tell: those of NCCL wait for minutes, and those of gloo for the half hour
of their timeout where a machine has gone without a word.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import selectors
import socket
import struct
import threading
import time
import weakref
from collections.abc import Callable

_TOKEN_BYTES = 16
_HELLO = struct.Struct(f"!{_TOKEN_BYTES}sI")
_GOODBYE, _LOST = b".", struct.Struct("!cI")
_QUESTION, _ANSWER = b"?", b"+"
_WELCOME = b"="
_PERIOD = 1.0  # seconds between two looks whether this end is closed
_SECONDS_TO_CONNECT = 10.0
# The system asks a machine that says nothing after 10 s, every 5 s, and takes five answers that do
# not come for its end. A process that is busy answers: the system does it for it.
_KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 5, "TCP_USER_TIMEOUT": 35_000}


_all: weakref.WeakSet[Lifeline] = weakref.WeakSet()


class Lifeline:
    """A connection of every other process to rank 0, which is closed when either end dies.

    Rank 0 calls ``listen``, and the others ``connect`` with what it returned.

    Args:
        rank: of this process.
        on_lost: is called in a thread, once, with the rank of the process that has ended.

    Attributes:
        lost: the rank of that process; None while all go on.
        met: the ranks of processes that there has been a connection with.
    """

    def __init__(self, rank: int, on_lost: Callable[[int], None]) -> None:
        self.lost: int | None = None
        self.met: set[int] = set()
        self._rank = rank
        self._on_lost = on_lost
        self._is_closed = threading.Event()
        self._connections: dict[socket.socket, int] = {}
        self._asked: set[socket.socket] = set()
        _all.add(self)

    @property
    def is_closed(self) -> bool:
        """Whether this process has said that it ends."""
        return self._is_closed.is_set()

    def listen(self, port: int = 0, token: bytes = b"") -> tuple[int, bytes]:
        """Wait for the others; the port, and a token that they have to know.

        Args:
            port: at which to wait; 0 for a free one.
            token: 16 bytes; empty for secret ones.

        Raises:
            OSError: the port is taken.
        """
        listener, token = (
            socket.create_server(("", port)),
            token or secrets.token_bytes(_TOKEN_BYTES),
        )
        threading.Thread(target=self._serve, args=(listener, token), daemon=True).start()
        return int(listener.getsockname()[1]), token

    def connect(self, host: str, port: int, token: bytes) -> None:
        """Connect to rank 0.

        Raises:
            OSError: it cannot be reached.
        """
        connection = socket.create_connection((host, port), timeout=_SECONDS_TO_CONNECT)
        _keep_alive(connection)
        connection.sendall(_HELLO.pack(token, self._rank))
        if _received(connection, 1) != _WELCOME:
            connection.close()
            raise ConnectionRefusedError(
                f"what listens at port {port} of {host} is not of this run"
            )
        connection.settimeout(None)
        self._connections[connection] = 0
        self.met.add(0)
        threading.Thread(target=self._hear, args=(connection,), daemon=True).start()

    def close(self) -> None:
        """Say that this process ends, or goes on alone, as it should."""
        self._is_closed.set()
        for connection in list(self._connections):
            with contextlib.suppress(OSError):
                connection.sendall(_GOODBYE)
                connection.shutdown(socket.SHUT_WR)

    def look_for_silent(self, seconds: float) -> None:
        """Take one that does not answer in this time for one that has ended: it stands still.

        The system of a process that was stopped goes on to answer, as that of a busy one does; here
        it has to do so by itself. Rank 0 asks all others, and each of these asks rank 0.
        """
        asked = dict(self._connections)
        self._asked.update(asked)
        for connection in asked:
            with contextlib.suppress(OSError):
                connection.sendall(_QUESTION)
        until = time.monotonic() + seconds
        while self._asked and self.lost is None and time.monotonic() < until:
            time.sleep(0.05)
        silent = [asked[it] for it in asked if it in self._asked and it in self._connections]
        if silent:
            threading.Thread(target=self._lose, args=(min(silent),), daemon=True).start()

    def let_go(self) -> None:
        """Close what a fork has of the connections: they have to end with the process itself."""
        for connection in self._connections:
            connection.close()

    def _is_talk(self, connection: socket.socket, said: bytes) -> bool:
        """Whether a process has said that it is there, or has asked this one."""
        if said == _QUESTION:
            with contextlib.suppress(OSError):
                connection.sendall(_ANSWER)
        elif said == _ANSWER:
            self._asked.discard(connection)
        return said in (_QUESTION, _ANSWER)

    def _lose(self, rank: int) -> None:
        if self.lost is None and not self._is_closed.is_set():
            self.lost = rank
            for connection in list(self._connections):
                with contextlib.suppress(OSError):
                    if self._rank == 0:
                        connection.sendall(_LOST.pack(b"!", rank))
            self._on_lost(rank)

    def _hear(self, connection: socket.socket) -> None:
        with connection:
            while self._is_talk(connection, said := _received(connection, 1)):
                pass
            self._connections.pop(connection)
            if said == _GOODBYE:
                return
            number = _received(connection, _LOST.size - 1) if said else b""
            self._lose(_LOST.unpack(said + number)[1] if number else 0)

    def _serve(self, listener: socket.socket, token: bytes) -> None:
        with selectors.DefaultSelector() as selector, listener:
            selector.register(listener, selectors.EVENT_READ)
            while not self._is_closed.is_set():
                for key, _ in selector.select(_PERIOD):
                    if key.fileobj is listener:
                        if (found := self._greeted(listener, token)) is not None:
                            selector.register(found, selectors.EVENT_READ)
                        continue
                    connection = key.fileobj
                    assert isinstance(connection, socket.socket)
                    if self._is_talk(connection, said := _received(connection, 1)):
                        continue
                    selector.unregister(connection)
                    rank = self._connections.pop(connection)
                    with connection:
                        if said != _GOODBYE:
                            self._lose(rank)

    def _greeted(self, listener: socket.socket, token: bytes) -> socket.socket | None:
        """A connection of another process of the run; None for a stranger's."""
        connection, _ = listener.accept()
        connection.settimeout(_SECONDS_TO_CONNECT)
        hello = _received(connection, _HELLO.size)
        if not hello or not secrets.compare_digest(_HELLO.unpack(hello)[0], token):
            connection.close()
            return None
        _keep_alive(connection)
        with contextlib.suppress(OSError):  # One that is gone already is lost, as any other.
            connection.sendall(_WELCOME)
        connection.settimeout(None)
        self._connections[connection] = rank = _HELLO.unpack(hello)[1]
        self.met.add(rank)
        return connection


def _let_go_of_all() -> None:
    for lifeline in _all:
        lifeline.let_go()


# A process that a trial has forked may outlive the rank that it comes from.
os.register_at_fork(after_in_child=_let_go_of_all)


def _received(connection: socket.socket, size: int) -> bytes:
    """So many bytes; none if the other end is gone before."""
    found = b""
    with contextlib.suppress(OSError):
        while len(found) < size and (more := connection.recv(size - len(found))):
            found += more
    return found if len(found) == size else b""


def _keep_alive(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _KEEPALIVE.items():
        if (option := getattr(socket, name, None)) is not None:  # Not every system has all.
            connection.setsockopt(socket.IPPROTO_TCP, option, value)

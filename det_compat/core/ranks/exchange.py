"""Python objects between processes, with one of them in the middle.

The first member of a group listens, and every other one keeps a connection to it, as with the ZMQ
sockets of Determined 0.38.1. No process group of ``torch.distributed`` is needed or made, so the
script's own may be made before or after. A member that has ended is an error for the first one, and
the other way round.
"""

from __future__ import annotations

import contextlib
import logging
import pickle
import socket
import threading
import time
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any, TypeVar

T = TypeVar("T")

logger = logging.getLogger("determined.core")

_PERIOD = 0.05  # seconds between two attempts to reach the first member
_PATIENCE = 30.0  # seconds of waiting after which the log says what is waited for
_HELLO = b"det_compat exchange, member "


class Exchange:
    """One member's end of the exchange between ``size`` members.

    Every member makes the same calls in the same order.

    Args:
        rank: this member, 0 being the one in the middle.
        size: how many members there are.
        listener: of the first member: what the others connect to. It is closed when all have.
        address: of the others: host and port of the first.
        is_given_up: is set by another thread that wants none of it any more.

    Raises:
        OSError: the address cannot be used.
        RuntimeError: it was given up before the members had met.
    """

    def __init__(
        self,
        rank: int,
        size: int,
        *,
        listener: socket.socket | None = None,
        address: tuple[str, int] | None = None,
        is_given_up: threading.Event | None = None,
    ) -> None:
        self._rank = rank
        self._is_given_up = is_given_up or threading.Event()
        self._connections: dict[int, Connection[Any, Any]] = {}
        if size < 2:
            return
        if rank == 0:
            assert listener is not None
            with listener:
                while len(self._connections) < size - 1:
                    self._greet(self._accepted(listener), size)
        else:
            assert address is not None
            self._connections[0] = self._connected(address)

    def _accepted(self, listener: socket.socket) -> Connection[Any, Any]:
        listener.settimeout(_PERIOD)
        while True:
            self._check_given_up()
            with contextlib.suppress(TimeoutError):
                accepted, _ = listener.accept()
                return _connection(accepted)

    def _connected(self, address: tuple[str, int]) -> Connection[Any, Any]:
        begun, has_said = time.monotonic(), False
        while True:
            self._check_given_up()
            try:
                connection = _connection(socket.create_connection(address))
                connection.send_bytes(_HELLO + str(self._rank).encode())
            except ConnectionError:
                # The first member may not have come so far.
                if not has_said and time.monotonic() - begun > _PATIENCE:
                    has_said = True
                    where = f"{address[0]}:{address[1]}"
                    logger.warning(f"rank {self._rank} is waiting for rank 0 at {where}")
                time.sleep(_PERIOD)
            else:
                return connection

    def _check_given_up(self) -> None:
        if self._is_given_up.is_set():
            raise RuntimeError("the DistributedContext is closed")

    def _greet(self, connection: Connection[Any, Any], size: int) -> None:
        """Take a connection for that of a member, if it says which."""
        try:
            hello = connection.recv_bytes(len(_HELLO) + 20)
            rank = int(hello.removeprefix(_HELLO)) if hello.startswith(_HELLO) else 0
        except (OSError, EOFError, ValueError):
            rank = 0
        if not 0 < rank < size:
            connection.close()
        elif rank in self._connections:
            connection.close()
            raise RuntimeError(f"two processes have said that they are rank {rank} of {size}")
        else:
            self._connections[rank] = connection

    def gather(self, thing: Any) -> list[Any] | None:
        """Every member's ``thing``, for the first; None for the others, once all have been read."""
        if self._rank == 0:
            everything = [thing, *self._received()]
            self._send_all(None)
            return everything
        self._send(0, thing)
        self._receive(0)
        return None

    def allgather(self, thing: T) -> list[T]:
        """Every member's ``thing``, for each; its own is the very object that it gave."""
        if self._rank == 0:
            everything = [thing, *self._received()]
            self._send_all(everything)
        else:
            self._send(0, thing)
            everything = self._receive(0)
            everything[self._rank] = thing
        return everything

    def broadcast(self, thing: T) -> T:
        """The first member's ``thing``, for each."""
        if self._rank == 0:
            self._send_all(thing)
            return thing
        received: T = self._receive(0)
        return received

    def close(self) -> None:
        """Give the connections up; what was sent still arrives."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _received(self) -> list[Any]:
        return [self._receive(rank) for rank in sorted(self._connections)]

    def _send_all(self, thing: Any) -> None:
        data = pickle.dumps(thing, pickle.HIGHEST_PROTOCOL)
        for rank in self._connections:
            self._at(rank, lambda connection: connection.send_bytes(data))

    def _send(self, rank: int, thing: Any) -> None:
        data = pickle.dumps(thing, pickle.HIGHEST_PROTOCOL)
        self._at(rank, lambda connection: connection.send_bytes(data))

    def _receive(self, rank: int) -> Any:
        return pickle.loads(self._at(rank, lambda connection: connection.recv_bytes()))

    def _at(self, rank: int, what: Callable[[Connection[Any, Any]], T]) -> T:
        if rank not in self._connections:
            raise RuntimeError("the DistributedContext is closed")
        try:
            return what(self._connections[rank])
        except (EOFError, ConnectionError) as error:
            raise RuntimeError(
                f"rank {self._rank} waited for rank {rank}, which has ended or closed its "
                "DistributedContext: its own output says why"
            ) from error


def listen(host: str, port: int) -> socket.socket:
    """What the other members of an exchange connect to; port 0 stands for any free one.

    Raises:
        OSError: the port is in use, or the host is not this machine.
    """
    try:
        # A port of an exchange that has just ended can be used again.
        return socket.create_server((host, port), backlog=1024)
    except OSError as error:
        raise OSError(
            error.errno,
            f"cannot listen on {host}:{port} ({error.strerror}): if another run on this machine "
            "has the port, give both runs their own by DistributedContext(pub_port=...)",
        ) from error


def port_of(listener: socket.socket) -> int:
    """The port that a listener has."""
    port = listener.getsockname()[1]
    assert isinstance(port, int)
    return port


def _connection(connected: socket.socket) -> Connection[Any, Any]:
    """Messages over a socket, which is taken over."""
    connected.setblocking(True)
    return Connection(connected.detach())

"""``python -m tests.attacks.s3_server PORT N``: S3 in memory; every Nth request goes wrong.

It is answered by a 503, by half of what it asked for, or by nothing at all, in turns.
"""

from __future__ import annotations

import itertools
import socket
import sys
from collections.abc import Callable, Iterable
from typing import Any

from moto.server import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple

_BODY = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"


class Unreliable:
    """An application of WSGI that fails at every ``period``-th request; 0 stands for never."""

    def __init__(self, application: Any, period: int) -> None:
        self._application = application
        self._period = period
        self._count = itertools.count(1)
        self._faults = itertools.cycle((_is_busy, self._is_cut, _hangs_up))

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if self._period and next(self._count) % self._period == 0:
            return next(self._faults)(environ, start)
        answer: Iterable[bytes] = self._application(environ, start)
        return answer

    def _is_cut(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        """Of what was asked for comes half, and then the connection ends; all else has happened."""
        content = b"".join(self._application(environ, start))
        if environ["REQUEST_METHOD"] != "GET" or len(content) < 2:
            return [content]
        return _cut(environ, content[: len(content) // 2])


def _is_busy(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
    environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
    head = [("Content-Type", "application/xml"), ("Content-Length", str(len(_BODY)))]
    start("503 Slow Down", head)
    return [_BODY]


def _hangs_up(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
    """What was sent is not looked at."""
    start("200 OK", [("Content-Length", "1000")])
    return _cut(environ, b"")


def _cut(environ: dict[str, Any], content: bytes) -> Iterable[bytes]:
    yield content
    environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
    raise ConnectionResetError


if __name__ == "__main__":
    moto = DomainDispatcherApplication(create_backend_app)
    run_simple(
        "127.0.0.1",
        int(sys.argv[1]),
        Unreliable(moto, int(sys.argv[2])),
        threaded=True,
        request_handler=MotoRequestHandler,
    )

"""``python -m tests.attacks.s3_server PORT N``: S3 in memory; every Nth answer is a 503."""

from __future__ import annotations

import itertools
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

    def __call__(self, environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if self._period and next(self._count) % self._period == 0:
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            head = [("Content-Type", "application/xml"), ("Content-Length", str(len(_BODY)))]
            start("503 Slow Down", head)
            return [_BODY]
        answer: Iterable[bytes] = self._application(environ, start)
        return answer


if __name__ == "__main__":
    moto = DomainDispatcherApplication(create_backend_app)
    run_simple(
        "127.0.0.1",
        int(sys.argv[1]),
        Unreliable(moto, int(sys.argv[2])),
        threaded=True,
        request_handler=MotoRequestHandler,
    )

"""Runs each request in a process that is as new."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping, Sequence

from det_compat.search.forks.client import Alone, ProcessDied, Request, Server

_LOG = logging.getLogger(__name__)


class Forks:
    """One request after the other, each in a fork, or in a new process where forks are not exact.

    What a request has imported of installed packages is there for the next one.

    Args:
        preload: modules that every request imports before anything else.
        variables: the environment variables that it sets then.
        first: installed modules that every request imports after that, before code of users runs.
    """

    def __init__(
        self,
        preload: Sequence[str],
        variables: Mapping[str, str],
        first: Sequence[str] = (),
    ) -> None:
        self._preload = preload
        self._variables = variables
        self._first = first
        self._learns = True
        self._server: Server | None = None
        if sys.platform.startswith("linux"):
            self._server = Server(preload)
        self._last: Request | None = None

    def start(self, target: str, payload: bytes) -> Request:
        """Start a request: ``module:function`` with ``payload``; the last one has to have ended.

        Raises:
            ProcessDied: a new process for it has ended at once.
        """
        self._prepare()
        if self._server is not None:
            try:
                self._last = self._server.request(target, payload)
                return self._last
            except ProcessDied as error:
                self._give_up(str(error))
        self._last = Alone(self._preload).request(target, payload)
        return self._last

    def close(self) -> None:
        """End the process that forks."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def _prepare(self) -> None:
        """Have the server import what the last request did, if forks are exact then."""
        server = self._server
        if server is not None and not server.problem() and (problem := self._learn(server)):
            _LOG.debug("each trial imports by itself what it needs: %s", problem)
            # What the first one does import is still to be found out.
            self._learns = self._last is None
            self._first = ()
            server.close()
            server = self._server = Server(self._preload)
        if server is not None and (problem := server.problem()):
            self._give_up(problem)

    def _learn(self, server: Server) -> str:
        if self._last is None:
            # In this process, `determined` is not what it is in a trial.
            learned = {"modules": self._first, "of_users": ["determined"], "variables": {}}
        else:
            learned = self._last.learned or {}
        if not self._learns or not learned.get("modules"):
            return ""
        return server.learn({**learned, "given": self._variables})

    def _give_up(self, problem: str) -> None:
        _LOG.debug("each trial starts a new process: %s", problem)
        self.close()

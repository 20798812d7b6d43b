"""Runs each request in a process that is as new."""

from __future__ import annotations

import logging
import sys
from dataclasses import replace

from det_compat.search.forks.client import Alone, Branch, ProcessDied, Request, Server
from det_compat.search.forks.imports import Imports

_LOG = logging.getLogger(__name__)


class Forks:
    """One request after the other, each in a fork, or in a new process where forks are not exact.

    What a request has imported of installed packages is there for the next one.

    Args:
        imports: what every request imports.
        template: the address of a process that has imported that; see ``template``.
    """

    def __init__(self, imports: Imports, template: str = "") -> None:
        self._imports = imports
        self._learns = True
        self._server: Server | None = None
        if template:
            self._server = Branch(template)
        elif sys.platform.startswith("linux"):
            self._server = Server(imports.preload)
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
        self._last = Alone(self._imports.preload).request(target, payload)
        return self._last

    def close(self) -> None:
        """End the process that forks."""
        if self._server is not None:
            self._server.close()
            self._server = None

    def _prepare(self) -> None:
        """Have the server import what the last request did, if forks are exact then."""
        server = self._server
        if isinstance(server, Branch) and (problem := server.problem()):
            _LOG.debug("the trials do not share their imports: %s", problem)
            server.close()
            server = self._server = Server(self._imports.preload)
        if server is not None and not server.problem() and (problem := self._learn(server)):
            _LOG.debug("each trial imports by itself what it needs: %s", problem)
            # What the first one does import is still to be found out.
            self._learns = self._last is None
            self._imports = replace(self._imports, first=())
            server.close()
            server = self._server = Server(self._imports.preload)
        if server is not None and (problem := server.problem()):
            self._give_up(problem)

    def _learn(self, server: Server) -> str:
        learned = self._imports.learned_first()
        if self._last is not None:
            learned = {**learned, "modules": [], **(self._last.learned or {})}
        return server.learn(learned) if self._learns and learned["modules"] else ""

    def _give_up(self, problem: str) -> None:
        _LOG.debug("each trial starts a new process: %s", problem)
        self.close()

"""The line from a trial that is a script to the search that runs it."""

from __future__ import annotations

import json
import socket
from typing import Any


class SearchLine:
    """A connection to a search.

    Args:
        port: the port of this machine at which the search listens.

    Attributes:
        is_stopped: whether the search has stopped the trial, or has ended.
    """

    def __init__(self, port: int) -> None:
        # The file keeps the connection open.
        with socket.create_connection(("127.0.0.1", port)) as connection:
            self._file = connection.makefile("rw", encoding="utf-8")
        self.is_stopped = False

    def validated(self, batches: int, metrics: dict[str, Any], checkpoint: str | None) -> None:
        """Report a validation, and wait for the search to judge it."""
        plain = {str(name): as_number(value) for name, value in metrics.items()}
        self._send({"batches": batches, "metrics": plain, "checkpoint": checkpoint})
        if not self.is_stopped and not self._file.readline():
            self.is_stopped = True

    def saved(self, batches: int, checkpoint: str) -> None:
        """Report a checkpoint of a moment whose validation was reported before."""
        self._send({"batches": batches, "checkpoint": checkpoint})

    def early_exit(self, reason: str) -> None:
        """Report why the trial stops before its end."""
        self._send({"early_exit": reason})

    def _send(self, message: dict[str, Any]) -> None:
        try:
            self._file.write(json.dumps(message, default=str) + "\n")
            self._file.flush()
        except (BrokenPipeError, ConnectionResetError):
            self.is_stopped = True


def as_number(value: Any) -> Any:
    """The number in a NumPy scalar or an array of one number; other values as they are."""
    return value.item() if getattr(value, "size", None) == 1 else value

"""``core_context.train`` of a script that is a trial of a search, which it tells of validations."""

import json
import socket
from pathlib import Path
from typing import Any

from det_compat.core.train import EarlyExitReason, TrainContext


class SearchedTrainContext(TrainContext):
    """Tells a search of validations, which may end the process, and of InvalidHP.

    Args:
        tensorboard_path: the run's TensorBoard directory.
        port: the port of this machine at which the search listens.
    """

    def __init__(self, tensorboard_path: Path, port: int) -> None:
        super().__init__(tensorboard_path)
        # The file keeps the connection open.
        with socket.create_connection(("127.0.0.1", port)) as connection:
            self._file = connection.makefile("rw", encoding="utf-8")

    def validated(self, batches: int, metrics: dict[str, Any], checkpoint: str | None) -> None:
        """Report a validation, and wait for the search to judge it.

        Raises:
            SystemExit: the search has stopped the trial, or has ended.
        """
        plain = {str(name): as_number(value) for name, value in metrics.items()}
        self._send({"batches": batches, "metrics": plain, "checkpoint": checkpoint})
        if not self._file.readline():
            raise SystemExit("the search has stopped the trial")

    def report_early_exit(self, reason: EarlyExitReason) -> None:
        """Report why the trial stops before its end."""
        super().report_early_exit(reason)
        self._send({"early_exit": reason.name})

    def _send(self, message: dict[str, Any]) -> None:
        try:
            self._file.write(json.dumps(message, default=str) + "\n")
            self._file.flush()
        except (BrokenPipeError, ConnectionResetError):
            raise SystemExit("the search has ended") from None


def as_number(value: Any) -> Any:
    """The number in a NumPy scalar or an array of one number; other values as they are."""
    return value.item() if getattr(value, "size", None) == 1 else value

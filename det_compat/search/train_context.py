"""``core_context.train`` of a trial in a script, whose trainer tells a search of validations."""

from pathlib import Path
from typing import Any

from det_compat.core.reports.kept import RunReports
from det_compat.core.reports.search_line import SearchLine
from det_compat.core.train import EarlyExitReason


class SearchedTrainContext(RunReports):
    """Tells a search of validations, which may end the process, and of InvalidHP.

    Args:
        folder: the run's.
        tensorboard_path: the run's TensorBoard directory.
        port: the port of this machine at which the search listens.
    """

    def __init__(self, folder: Path, tensorboard_path: Path, port: int) -> None:
        super().__init__(folder, tensorboard_path)
        self._line = SearchLine(port)

    def validated(self, batches: int, metrics: dict[str, Any], checkpoint: str | None) -> None:
        """Report a validation, and wait for the search to judge it.

        Raises:
            SystemExit: the search has stopped the trial, or has ended.
        """
        self._line.validated(batches, metrics, checkpoint)
        self._end_if_stopped()

    def report_early_exit(self, reason: EarlyExitReason) -> None:
        """Report why the trial stops before its end."""
        super().report_early_exit(reason)
        self._line.early_exit(reason.name)
        self._end_if_stopped()

    def _end_if_stopped(self) -> None:
        if self._line.is_stopped:
            raise SystemExit("the search has stopped the trial")

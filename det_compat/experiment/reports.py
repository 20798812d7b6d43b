"""What a trial reports in a run: logged as off a cluster, and kept in the run's folder."""

from __future__ import annotations

import json
import logging
import time
from pathlib import Path
from typing import Any

from det_compat.core.reports.kept import plain_value
from det_compat.core.train import TrainContext
from det_compat.script.run_paths import METRICS
from det_compat.shared.durable_files import append_line

logger = logging.getLogger("determined.core")


class RunReports(TrainContext):
    """Keeps averages of training and metrics of validations, a JSON object a line.

    The run goes on if they cannot be written.

    Args:
        folder: the run's.
        tensorboard_path: where TensorBoard files go.
    """

    def __init__(self, folder: Path, tensorboard_path: Path | None) -> None:
        super().__init__(tensorboard_path)
        self._file = folder / METRICS
        self._has_warned = False

    def _report(
        self,
        group: str,
        steps_completed: int,
        metrics: dict[str, Any],
        batch_metrics: list[dict[str, Any]] | None,
    ) -> None:
        values = {str(name): plain_value(value) for name, value in metrics.items()}
        line = {
            "group": group,
            "steps_completed": steps_completed,
            "time": time.time(),
            "metrics": values,
        }
        try:
            # The directory is not made again if somebody has deleted it.
            append_line(self._file, json.dumps(line, default=str))
        except (OSError, ValueError) as error:
            if not self._has_warned:
                logger.warning(f"cannot keep metrics in {self._file}: {error}")
            self._has_warned = True

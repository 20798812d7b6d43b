"""The trials of a search while it runs."""

import functools
import importlib
import sys
import threading
import time
from typing import Any

from ray.tune.progress_reporter import TrialProgressCallback

from det_compat.search.records import SearchFolder, Status, TrialRecord
from det_compat.search.results import read_results
from det_compat.search.searchers.plan import SearchPlan
from det_compat.search.tables import progress_line, progress_table

_PERIOD = 0.5  # seconds between two drawings of the table


class LiveTable(TrialProgressCallback):
    """Shows a table in a terminal, and elsewhere a line for each trial that ends.

    Where there is a TrialProgressCallback, Tune adds none of its own.
    """

    def __init__(self, plan: SearchPlan, folder: SearchFolder) -> None:
        super().__init__()
        self._plan = plan
        self._folder = folder
        self._live: Any = None
        self._shown_at = 0.0
        self._ended_before: list[dict[str, Any]] = []

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_live": None}

    def setup(self, *args: Any, **info: Any) -> None:
        smaller_is_better = self._plan.searcher.smaller_is_better
        earlier = read_results(self._folder, smaller_is_better=smaller_is_better)
        self._ended_before = [r.as_dict() for r in earlier if r.status is not Status.UNFINISHED]
        if sys.stdout.isatty():
            from rich.live import Live

            from det_compat.shared.terminal import console

            self._live = Live(console=console(), refresh_per_second=2)
            self._live.start()

    def on_step_end(self, iteration: int, trials: list[Any], **info: Any) -> None:
        if self._live is not None and time.monotonic() > self._shown_at + _PERIOD:
            self._shown_at = time.monotonic()
            self._show(trials)

    def on_trial_result(self, *args: Any, **info: Any) -> None:
        _import_what_draws()

    def on_trial_complete(self, iteration: int, trials: list[Any], trial: Any, **info: Any) -> None:
        if self._live is None and self._record(trial).status is not Status.UNFINISHED:
            print(progress_line(self._plan, self._row(trial)), flush=True)

    on_trial_error = on_trial_complete

    def on_experiment_end(self, trials: list[Any], **info: Any) -> None:
        if self._live is not None:
            self._show(trials)
            self._live.stop()
            self._live = None

    def _show(self, trials: list[Any]) -> None:
        # Of a trial that has started again, the latest start counts.
        rows = {row["trial"]: row for row in [*self._ended_before, *map(self._row, trials)]}
        self._live.update(progress_table(self._plan, list(rows.values())))

    def _row(self, trial: Any) -> dict[str, Any]:
        record = self._record(trial)
        status = record.status
        result = trial.last_result or {}
        return {
            "trial": trial.config["trial"]["index"],
            "hparams": trial.config["hparams"],
            "status": trial.status.lower() if status is Status.UNFINISHED else status.value,
            "batches": result.get("batches", 0),
            "metric": result.get(self._plan.searcher.metric),
            "reason": record.reason,
        }

    def _record(self, trial: Any) -> TrialRecord:
        return self._folder.trial(trial.config["trial"]["index"])


@functools.cache
def _import_what_draws() -> None:
    """Import what draws the results while trials train, and not when they have ended."""
    threading.Thread(target=importlib.import_module, args=["det_compat.search.picture"]).start()

"""Early stopping: one of Ray Tune's ASHA schedulers a bracket."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from ray.tune.schedulers import AsyncHyperBandScheduler, FIFOScheduler, TrialScheduler

from det_compat.search.records import SearchFolder, Status, TrialRecord
from det_compat.search.searchers.plan import SearchPlan

if TYPE_CHECKING:
    from det_compat.search.tune.losses import Losses

# A trial counts as this bad that has died, or that reports what is no number.
_WORST = 1e300


class BracketScheduler(FIFOScheduler):
    """Routes each trial to the ASHA scheduler of its bracket.

    Tune places rungs at powers of the divisor, and Determined at the whole length over such powers,
    rounded down. So Tune is told the time in rungs: a trial that reaches rung k is at the time
    divisor^(k-1). Trials that reach the last rung end by themselves.

    A search that is restored asks the records of its trials what happened before.
    """

    def __init__(self, plan: SearchPlan, folder: SearchFolder, losses: Losses) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Ray has no types for it.
        self._folder = folder
        self._losses = losses
        self._divisor = plan.searcher.divisor
        # Processes that Ray Train has started end in good order only by themselves.
        self._ends_itself = plan.processes > 1
        self._is_worse_below = not plan.searcher.smaller_is_better
        self._num_rungs = [len(bracket.rungs) for bracket in plan.brackets]
        self._asha = [
            AsyncHyperBandScheduler(
                time_attr="time",
                metric="metric",
                mode=plan.mode,
                # Ray declares an int, and compares it with the time alone.
                max_t=plan.searcher.divisor ** max(rungs - 1, 0),  # type: ignore[arg-type]
                reduction_factor=plan.searcher.divisor,
            )
            for rungs in self._num_rungs
        ]
        self._climbed: dict[int, int] = {}
        self._failures = 0
        self._has_replayed = False

    def set_search_properties(self, metric: str | None, mode: str | None, **spec: Any) -> bool:
        self._metric = metric
        return True

    def on_trial_add(self, tune_controller: Any, trial: Any) -> None:
        if not self._has_replayed:
            self._has_replayed = True
            for record in self._folder.trials():
                self._replay(record)

    def on_trial_result(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> str:
        if "rungs" not in result or self._metric not in result:
            return str(TrialScheduler.CONTINUE)
        index, bracket = _index_and_bracket(trial)
        rungs = result["rungs"]
        action = self._climb(index, bracket, rungs, result[self._metric])
        if rungs >= self._num_rungs[bracket]:
            # The trial ends by itself.
            return str(TrialScheduler.CONTINUE)
        if action == TrialScheduler.STOP:
            self._folder.trial(index).finish(Status.STOPPED)
            if self._ends_itself:
                return str(TrialScheduler.CONTINUE)
        return action

    def on_trial_error(self, tune_controller: Any, trial: Any) -> None:
        if self._losses.has_failed(trial):
            self._fail(*_index_and_bracket(trial))

    def on_trial_complete(self, tune_controller: Any, trial: Any, result: dict[str, Any]) -> None:
        index, bracket = _index_and_bracket(trial)
        if self._folder.trial(index).status is Status.ERROR:
            self._fail(index, bracket)

    def on_trial_remove(self, tune_controller: Any, trial: Any) -> None:
        pass

    def _climb(self, index: int, bracket: int, rungs: int, metric: float) -> str:
        """Let the trial stand at each rung up to ``rungs`` that it has not stood at."""
        first = self._climbed.get(index, 0) + 1
        # No trial goes on from the last rung.
        for rung in range(first, min(rungs, self._num_rungs[bracket] - 1) + 1):
            self._climbed[index] = rung
            if self._stand(index, bracket, rung, metric) == TrialScheduler.STOP:
                return str(TrialScheduler.STOP)
        return str(TrialScheduler.CONTINUE)

    def _stand(self, index: int, bracket: int, rung: int, metric: float) -> str:
        # ASHA asks nothing of a trial but its id.
        asha: Any = self._asha[bracket]
        climber = SimpleNamespace(trial_id=str(index))
        if not math.isfinite(metric):
            # Each is worse than the one before, since ASHA lets pass what is as good as others.
            self._failures += 1
            worst = _WORST * (1 + 1e-6 * self._failures)
            metric = -worst if self._is_worse_below else worst
        asha.on_trial_add(None, climber)
        result = {"time": self._divisor ** (rung - 1), "metric": metric}
        return str(asha.on_trial_result(None, climber, result))

    def _fail(self, index: int, bracket: int) -> None:
        self._climb(index, bracket, self._climbed.get(index, 0) + 1, math.nan)

    def _replay(self, record: TrialRecord) -> None:
        about, reports = record.about(), record.reports()
        index, bracket = about["index"], about["bracket"]
        if record.status is Status.INVALID_HP:
            return
        if record.status is Status.UNFINISHED:
            # The trial will report its last one again.
            reports = reports[:-1]
        for report in reports:
            self._climb(index, bracket, report.rungs, report.metric)
        if record.status is Status.ERROR:
            self._fail(index, bracket)


def _index_and_bracket(trial: Any) -> tuple[int, int]:
    own = trial.config["trial"]
    return own["index"], own["bracket"]

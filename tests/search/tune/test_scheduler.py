from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from det_compat.config.experiment import parse_config
from det_compat.search.records import Report, SearchFolder, Status
from det_compat.search.searchers.plan import SearchPlan, plan_search

pytest.importorskip("ray", reason="needs det-compat[search]")

from ray.tune.experiment import Trial

from det_compat.search.tune.losses import Losses
from det_compat.search.tune.scheduler import BracketScheduler

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


def plan(length: int = 16, **searcher: Any) -> SearchPlan:
    keys = {"name": "adaptive_asha", "metric": "loss", "max_trials": 16, **searcher}
    return planned(length, 1, keys)


def planned(length: int, slots: int, searcher: dict[str, Any]) -> SearchPlan:
    config = {
        "searcher": {**searcher, "max_length": {"batches": length}},
        "resources": {"slots_per_trial": slots},
    }
    return plan_search(parse_config(config), 0)


class Race:
    """Trials that report to a scheduler."""

    def __init__(self, folder: Path, of: SearchPlan) -> None:
        self.folder = SearchFolder(folder)
        self.losses = Losses(None)
        self.scheduler = BracketScheduler(of, self.folder, self.losses)
        self.scheduler.set_search_properties("loss", of.mode)

    def trial(self, index: int, bracket: int = 0, status: str = Trial.RUNNING) -> Any:
        trial = SimpleNamespace(
            trial_id=f"t{index}",
            config={"trial": {"index": index, "bracket": bracket}},
            status=status,
            pickled_error_file=None,
            should_recover=lambda: False,
        )
        self.scheduler.on_trial_add(None, trial)
        self.folder.trial(index).begin(index, bracket, {})
        return trial

    def report(self, index: int, rungs: int, loss: float, bracket: int = 0) -> str:
        result = {"rungs": rungs, "loss": loss}
        trial = self.trial(index, bracket)
        return str(self.scheduler.on_trial_result(None, trial, result))


def test_at_a_rung_the_worse_stop(tmp_path: Path) -> None:
    race = Race(tmp_path, plan())
    assert race.report(0, 0, 9.0) == "CONTINUE"
    assert race.report(0, 1, 0.5) == "CONTINUE"
    assert race.report(1, 1, 0.4) == "CONTINUE"
    assert race.report(2, 1, 0.6) == "STOP"
    assert race.folder.trial(2).status is Status.STOPPED
    # between rungs nothing is decided
    assert race.report(1, 1, 99.0) == "CONTINUE"
    # the last rung is the end anyway
    assert race.report(1, 2, 0.3) == "CONTINUE"
    assert race.report(1, 3, 99.0) == "CONTINUE"
    assert race.report(0, 3, 99.0) == "CONTINUE"
    assert race.folder.trial(0).status is Status.UNFINISHED


def test_larger_may_be_better(tmp_path: Path) -> None:
    race = Race(tmp_path, plan(smaller_is_better=False))
    assert race.report(0, 1, 0.5) == "CONTINUE"
    assert race.report(1, 1, 0.4) == "STOP"
    assert race.report(2, 1, math.nan) == "STOP"
    assert race.report(3, 1, 0.6) == "CONTINUE"


def test_brackets_do_not_meet(tmp_path: Path) -> None:
    race = Race(tmp_path, plan())
    assert race.report(0, 1, 0.1, bracket=0) == "CONTINUE"
    assert race.report(1, 1, 0.9, bracket=1) == "CONTINUE"
    assert race.report(2, 1, 0.8, bracket=0) == "STOP"


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_counts_as_worst(bad: float, tmp_path: Path) -> None:
    race = Race(tmp_path, plan())
    assert race.report(0, 1, bad) == "CONTINUE"
    assert race.report(1, 1, 5.0) == "CONTINUE"
    assert race.report(2, 1, bad) == "STOP"
    assert race.report(3, 1, 5.0) == "CONTINUE"


def test_of_several_that_are_worst_none_goes_on(tmp_path: Path) -> None:
    race = Race(tmp_path, plan(smaller_is_better=False))
    assert race.report(0, 1, math.nan) == "CONTINUE"
    assert [race.report(index, 1, math.nan) for index in range(1, 6)] == ["STOP"] * 5
    assert race.report(6, 1, 0.5) == "CONTINUE"
    assert race.report(7, 1, math.nan) == "STOP"


def test_a_trial_that_dies_counts_as_worst(tmp_path: Path) -> None:
    race = Race(tmp_path, plan(divisor=2.0))
    race.losses.on_trial_start(0, [], race.trial(0))
    race.scheduler.on_trial_error(None, race.trial(0))
    race.folder.trial(1).begin(1, 0, {})
    race.folder.trial(1).finish(Status.ERROR, "no metric")
    race.scheduler.on_trial_complete(None, race.trial(1), {})
    # better than the worse half
    assert race.report(2, 1, 7.0) == "CONTINUE"
    assert race.report(3, 1, 8.0) == "CONTINUE"


def test_a_trial_that_starts_again_counts_for_nothing_yet(tmp_path: Path) -> None:
    race = Race(tmp_path, plan())
    race.scheduler.on_trial_error(None, race.trial(0, status=Trial.ERROR))
    assert race.report(0, 1, 0.5) == "CONTINUE"
    assert race.report(1, 1, 0.6) == "STOP"


def test_rungs_that_are_one(tmp_path: Path) -> None:
    of = plan(2, bracket_rungs=[3], divisor=2.0)
    assert of.brackets[0].rungs == (1, 1, 2)
    race = Race(tmp_path, of)
    assert race.report(0, 2, 0.5) == "CONTINUE"
    assert race.report(1, 2, 0.4) == "CONTINUE"
    assert race.report(2, 2, 0.6) == "STOP"


def test_searchers_without_rungs_stop_nothing(tmp_path: Path) -> None:
    race = Race(tmp_path, plan(name="random"))
    assert [race.report(index, 1, float(index)) for index in range(9)] == ["CONTINUE"] * 9


def test_a_restored_search_knows_what_happened(tmp_path: Path) -> None:
    folder = SearchFolder(tmp_path)
    for index, (loss, status) in enumerate(
        [(0.5, Status.COMPLETED), (0.1, Status.UNFINISHED), (0.0, Status.INVALID_HP)]
    ):
        record = folder.trial(index)
        record.begin(index, 0, {})
        record.append(Report(1, 1, loss, {}))
        if status is not Status.UNFINISHED:
            record.finish(status)
    race = Race(tmp_path, plan())
    assert race.report(3, 1, 0.6) == "STOP"
    assert race.report(4, 1, 0.4) == "CONTINUE"
    # an unfinished one reports its last result again, and it is judged then
    assert race.report(1, 1, 0.47) == "STOP"


def test_a_trial_of_several_processes_ends_itself(tmp_path: Path) -> None:
    searcher = {"name": "async_halving", "metric": "loss", "max_trials": 4, "num_rungs": 2}
    race = Race(tmp_path, planned(16, 2, searcher))
    assert [race.report(0, 1, 0.5), race.report(1, 1, 0.6)] == ["CONTINUE", "CONTINUE"]
    # which it sees in its record
    statuses = [race.folder.trial(index).status for index in (0, 1)]
    assert statuses == [Status.UNFINISHED, Status.STOPPED]

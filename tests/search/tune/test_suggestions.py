"""Which trials Ray Tune is given, also by a search that goes on."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

pytest.importorskip("ray", reason="needs det-compat[search]")

from det_compat.config.experiment import parse_config
from det_compat.search.errors import SearchError
from det_compat.search.records import SearchFolder, Status
from det_compat.search.searchers.plan import SearchPlan, plan_search
from det_compat.search.tune.suggestions import Suggestions


def plan() -> SearchPlan:
    config = {
        "searcher": {
            "name": "adaptive_asha",
            "metric": "loss",
            "max_trials": 12,
            "max_length": {"batches": 64},
            "max_concurrent_trials": 4,
        },
        "hyperparameters": {"lr": {"type": "double", "minval": 0, "maxval": 1}},
    }
    return plan_search(parse_config(config), seed=1)


def all_now(suggestions: Suggestions, prefix: str) -> list[tuple[int, int, float]]:
    found: list[tuple[int, int, float]] = []
    while isinstance(one := suggestions.suggest(f"{prefix}{len(found)}"), dict):
        found.append((one["trial"]["index"], one["trial"]["bracket"], one["hparams"]["lr"]))
    return found


def test_a_search_goes_on_with_the_same_trials(tmp_path: Path) -> None:
    whole = Suggestions(plan(), SearchFolder(tmp_path / "whole"))
    folder = SearchFolder(tmp_path / "parts")
    part = Suggestions(plan(), folder)
    first = all_now(part, "a")
    assert all_now(whole, "a") == first
    for number, ended in enumerate((2, 0)):
        for suggestions in (whole, part):
            suggestions.on_trial_complete(f"a{ended}")
        folder.trial(ended).finish(Status.STOPPED)
        os.utime(folder.trial(ended).folder / "end.json", ns=(number, number))
    part = Suggestions(plan(), folder)
    # those that had begun, then what the other one creates
    begun = [first[1], first[3]]
    assert all_now(part, "b") == begun + all_now(whole, "b")
    assert part.suggest("c") is None


def test_a_search_that_is_over(tmp_path: Path) -> None:
    folder = SearchFolder(tmp_path)
    suggestions = Suggestions(plan(), folder)
    for turn in range(12):
        for number, (index, _, _) in enumerate(all_now(suggestions, f"{turn}/")):
            folder.trial(index).finish(Status.COMPLETED)
            suggestions.on_trial_complete(f"{turn}/{number}")
    assert suggestions.suggest("x") == Suggestions.FINISHED
    assert Suggestions(plan(), folder).suggest("x") == Suggestions.FINISHED


@pytest.mark.parametrize("about", [{"index": 1}, {"bracket": 9}, {"bracket": -1}])
def test_records_of_another_search(about: dict[str, int], tmp_path: Path) -> None:
    folder = SearchFolder(tmp_path)
    folder.trial(0).begin(0, 0, {})
    file = tmp_path / "trials" / "0000" / "trial.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **about}))
    with pytest.raises(SearchError, match="0000: trial 0 is missing"):
        Suggestions(plan(), folder)


def test_tune_gets_no_secrets(tmp_path: Path) -> None:
    folder = SearchFolder(tmp_path)
    folder.trial(0).begin(0, 0, {"lr": 1, "api_key": "hush"})
    assert "hush" not in str(Suggestions(plan(), folder).suggest("x"))

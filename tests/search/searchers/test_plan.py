from __future__ import annotations

from typing import Any

import pytest

from det_compat.config.experiment import parse_config
from det_compat.config.lengths import Length, Unit
from det_compat.search import SearchError
from det_compat.search.searchers.plan import SearchPlan, plan_search, trial_config

RANDOM = {"name": "random", "metric": "loss", "max_trials": 3, "max_length": {"batches": 8}}


def config(**keys: Any) -> dict[str, Any]:
    return {"searcher": RANDOM, "hyperparameters": {"global_batch_size": 10}, **keys}


def plan(seed: int = 1, **keys: Any) -> SearchPlan:
    return plan_search(parse_config(config(**keys)), seed)


def halving(**length: Any) -> dict[str, Any]:
    return {"name": "async_halving", "metric": "m", "max_trials": 2, "num_rungs": 2, **length}


def test_the_config_has_the_last_word_on_the_seed() -> None:
    assert plan(9).seed == 9
    assert plan(9, reproducibility={"experiment_seed": 4}).seed == 4


def test_a_grid_starts_with_its_last_point() -> None:
    # as Determined 0.38 does
    space = {
        "a": {"type": "categorical", "vals": [1, 2]},
        "b": {"type": "int", "minval": 0, "maxval": 1, "count": 2},
    }
    found = plan(searcher={**RANDOM, "name": "grid"}, hyperparameters=space)
    assert found.max_trials == 4
    points = [found.hparams(index) for index in range(4)]
    assert points[0] == {"a": 2, "b": 1}
    assert points[-1] == {"a": 1, "b": 0}
    assert points[1] == {"a": 2, "b": 0}


def test_what_one_trial_is_given_is_its_own() -> None:
    space = {"a": {"type": "categorical", "vals": [[1]]}, "b": [2]}
    found = plan(hyperparameters=space)
    found.hparams(0)["a"].append(2)
    found.hparams(0)["b"].append(2)
    assert found.hparams(0) == {"a": [1], "b": [2]}


@pytest.mark.parametrize(
    ("length", "reports"),
    [
        ({"batches": 16}, [(3, {}, 0), (4, {}, 1), (15, {}, 1), (16, {}, 2), (99, {}, 2)]),
        ({"epochs": 8}, [(99, {"epochs": 1}, 0), (1, {"epochs": 2}, 1), (1, {"epochs": 8}, 2)]),
        # 250 records are 25 batches, 62 are 6
        ({"records": 250}, [(5, {}, 0), (6, {}, 1), (24, {}, 1), (25, {}, 2)]),
    ],
)
def test_rungs_reached(length: dict[str, int], reports: list[Any]) -> None:
    found = plan(searcher=halving(max_length=length))
    for batches, metrics, rungs in reports:
        hparams = {"global_batch_size": 10}
        assert found.rungs_reached(0, batches, metrics, hparams) == rungs, (batches, metrics)


def test_a_time_metric_of_the_script() -> None:
    found = plan(searcher=halving(time_metric="tokens", max_time=400))
    assert found.rungs_reached(0, 1, {"tokens": 100.0}, {}) == 1
    with pytest.raises(SearchError, match=r"reports no number 'tokens'.* are loss"):
        found.rungs_reached(0, 1, {"loss": 100.0}, {})


def test_where_a_trial_validates() -> None:
    found = plan(searcher=halving(max_length={"epochs": 8}))
    assert found.rungs_of(0) == (Length(2, Unit.EPOCHS), Length(8, Unit.EPOCHS))


def test_the_config_of_a_trial_is_one_run() -> None:
    raw = parse_config(config(searcher=halving(max_length={"epochs": 8}))).raw
    made = trial_config(raw, {"a": {"b": [1, {"c": 2}]}, "d": {}}, 77)
    again = parse_config(made)
    assert again.searcher.name == "single"
    assert again.searcher.max_length == Length(8, Unit.EPOCHS)
    assert again.hyperparameters.constants() == {"a": {"b": [1, {"c": 2}]}, "d": {}}
    assert again.seed == 77
    assert raw["searcher"]["name"] == "async_halving"


def test_categorical_mappings_stay_values() -> None:
    space = {"opt": {"type": "categorical", "vals": [{"name": "sgd", "type": "x"}]}}
    found = plan(hyperparameters=space)
    raw = parse_config(config(hyperparameters=space)).raw
    made = parse_config(trial_config(raw, found.hparams(0), 0))
    assert made.hyperparameters.constants() == {"opt": {"name": "sgd", "type": "x"}}


def test_refusals() -> None:
    with pytest.raises(SearchError, match="pbt"):
        plan(searcher={"name": "pbt", "metric": "m", "max_length": {"batches": 1}})
    with pytest.raises(SearchError, match=r"write \{batches: 5\}"):
        plan(searcher={**RANDOM, "max_length": 5})
    with pytest.raises(SearchError, match=r"set searcher.max_length"):
        plan(searcher={"name": "single", "metric": "m"})


def test_a_script_may_know_its_length() -> None:
    searcher = {"name": "random", "metric": "loss", "max_trials": 3}
    found = plan(searcher=searcher, entrypoint="python3 train.py")
    assert (found.rungs_of(0), found.rungs_reached(0, 9, {}, {})) == ((), 0)
    assert (found.is_script, found.processes) == (True, 1)
    with pytest.raises(SearchError, match=r"set searcher\.max_length"):
        plan(searcher=searcher, entrypoint="model_def:Trial")
    asha = {**searcher, "name": "async_halving", "num_rungs": 2, "max_length": {"epochs": 4}}
    assert plan(searcher=asha, resources={"slots_per_trial": 2}).processes == 2

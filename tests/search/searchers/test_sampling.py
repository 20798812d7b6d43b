from __future__ import annotations

import math
from typing import Any

import pytest

from det_compat.config.hyperparameters import Categorical, Const, Double, Hyperparameters, Int, Log
from det_compat.search import SearchError
from det_compat.search.searchers.sampling import grid, sample, trial_seed

SPACE = Hyperparameters(
    {
        "size": Int(2, 4),
        "rate": Log(-3.0, -1.0, 10.0),
        "net": {"drop": Double(0.25, 0.75), "kind": Categorical(("a", None, [1, 2], {"b": 3}))},
        "layers": Const([8, 16]),
        "empty": Const({}),
    }
)


def drawn(name: str, count: int = 400) -> list[Any]:
    return [sample(SPACE, 7, index)[name] for index in range(count)]


def test_ranges() -> None:
    assert set(drawn("size")) == {2, 3, 4}
    rates = drawn("rate")
    assert all(1e-3 <= rate <= 1e-1 for rate in rates)
    # as many below the middle exponent as above it
    assert 150 < sum(rate < 1e-2 for rate in rates) < 250
    assert all(0.25 <= net["drop"] <= 0.75 for net in drawn("net"))
    kinds = [net["kind"] for net in drawn("net")]
    assert all(kind in kinds for kind in ("a", None, [1, 2], {"b": 3}))
    assert drawn("layers", 2) == [[8, 16], [8, 16]]
    assert list(sample(SPACE, 7, 0)) == list(SPACE.space)


def test_the_same_seed_draws_the_same() -> None:
    assert [sample(SPACE, 7, i) for i in range(9)] == [sample(SPACE, 7, i) for i in range(9)]
    assert sample(SPACE, 7, 0) != sample(SPACE, 8, 0) != sample(SPACE, 8, 1)
    reordered = Hyperparameters(dict(reversed(SPACE.space.items())))
    assert sample(SPACE, 7, 3) == sample(reordered, 7, 3)


def test_the_first_draw_is_what_it_was() -> None:
    # a change here gives the users of a seed other hyperparameters
    assert sample(Hyperparameters({"x": Int(0, 10**6)}), 1, 0) == {"x": 950504}


def test_trials_have_seeds_of_their_own() -> None:
    seeds = {trial_seed(seed, index) for seed in range(5) for index in range(5)}
    assert len(seeds) == 25
    assert all(0 <= seed < 2**31 for seed in seeds)


def points(**space: Any) -> list[Any]:
    return [next(iter(point.values())) for point in grid(Hyperparameters(space))]


def test_grid_points() -> None:
    # master/pkg/searcher/grid_test.go
    assert points(x=Int(0, 20, 3)) == [0, 10, 20]
    assert points(x=Int(0, 4, 5)) == [0, 1, 2, 3, 4]
    assert points(x=Int(-4, -2, 3)) == [-4, -3, -2]
    # by hand
    assert points(x=Int(1, 3, 99)) == [1, 2, 3]
    assert points(x=Int(0, 3, 3)) == [0, 2, 3]
    assert points(x=Int(0, 5, 1)) == [3]
    assert points(x=Int(-5, 0, 1)) == [-3]
    assert points(x=Double(0.0, 2.0, 5)) == [0.0, 0.5, 1.0, 1.5, 2.0]
    assert points(x=Double(0.0, 2.0, 1)) == [1.0]
    assert points(x=Log(-3.0, -1.0, 10.0, 3)) == pytest.approx([1e-3, 1e-2, 1e-1])
    assert points(x=Log(-3.0, -1.0, 10.0, 1)) == pytest.approx([1e-2])
    assert points(x=Categorical(("a", None))) == ["a", None]


def test_the_order_of_a_grid() -> None:
    space = {"b": Int(0, 10, 2), "a": {"z": Categorical((1, 2)), "y": Const("k")}, "c": Const(0)}
    assert grid(Hyperparameters(space)) == [
        {"a": {"y": "k", "z": 1}, "b": 0, "c": 0},
        {"a": {"y": "k", "z": 1}, "b": 10, "c": 0},
        {"a": {"y": "k", "z": 2}, "b": 0, "c": 0},
        {"a": {"y": "k", "z": 2}, "b": 10, "c": 0},
    ]


def test_grids_that_cannot_be() -> None:
    with pytest.raises(SearchError, match=r"hyperparameters.a.x has no count"):
        grid(Hyperparameters({"a": {"x": Int(0, 3)}}))
    with pytest.raises(SearchError, match="1000000000 points"):
        grid(Hyperparameters({name: Int(0, 999, 1000) for name in "abc"}))


def test_a_power_too_large() -> None:
    with pytest.raises(SearchError, match="too large"):
        sample(Hyperparameters({"x": Log(500.0, 600.0, 10.0)}), 0, 0)
    assert math.isfinite(sample(Hyperparameters({"x": Log(-600.0, -500.0, 10.0)}), 0, 0)["x"])

"""The expected numbers are those of Determined's own tests of its Go searchers, or by hand."""

from __future__ import annotations

from typing import Any

import pytest

from det_compat.config.lengths import Length, Unit
from det_compat.config.searcher import Searcher
from det_compat.search import SearchError
from det_compat.search.searchers.brackets import (
    Bracket,
    bracket_rungs,
    brackets,
    concurrent_in_brackets,
    halvings,
    rung_lengths,
    trials_in_brackets,
    trials_in_budget,
)


def adaptive(max_length: int, max_trials: int, **keys: Any) -> list[tuple[int, int, int]]:
    searcher = Searcher(
        "adaptive_asha",
        "adaptive_asha",
        max_length=Length(max_length, Unit.BATCHES),
        max_trials=max_trials,
        **keys,
    )
    return [
        (len(found.rungs), found.max_trials, found.max_concurrent_trials)
        for found in brackets(searcher)
    ]


# master/pkg/searcher/adaptive_asha_test.go, TestBracketMaxTrials
@pytest.mark.parametrize(
    ("trials", "divisor", "rungs", "expected"),
    [
        (20, 3.0, [3, 2, 1], [12, 5, 3]),
        (50, 3.0, [4, 3], [35, 15]),
        (50, 4.0, [3, 2], [37, 13]),
        (100, 4.0, [4, 3, 2], [70, 22, 8]),
    ],
)
def test_trials_of_each_bracket(
    trials: int, divisor: float, rungs: list[int], expected: list[int]
) -> None:
    assert trials_in_brackets(trials, divisor, rungs) == expected


# master/pkg/searcher/adaptive_asha_test.go, TestBracketMaxConcurrentTrials
@pytest.mark.parametrize(
    ("at_once", "divisor", "trials", "expected"),
    [
        (0, 3.0, [9, 3, 1], [3, 3, 3]),
        (11, 3.0, [9, 3, 1], [4, 4, 3]),
        (0, 4.0, [40, 10], [10, 10]),
        # by hand: every bracket has one
        (2, 4.0, [7, 2, 1], [1, 1, 1]),
    ],
)
def test_trials_at_once_of_each_bracket(
    at_once: int, divisor: float, trials: list[int], expected: list[int]
) -> None:
    assert concurrent_in_brackets(at_once, divisor, trials) == expected


def test_as_determined_makes_brackets() -> None:
    # master/pkg/searcher/adaptive_asha_test.go, TestMakeBrackets
    assert adaptive(100, 10, max_concurrent_trials=2) == [(2, 7, 1), (1, 3, 1)]
    found = adaptive(1000, 10, mode="conservative", divisor=3.0, max_concurrent_trials=5)
    assert found == [(3, 7, 2), (2, 2, 2), (1, 1, 1)]


def test_as_determined_makes_rungs_of_brackets() -> None:
    # master/pkg/searcher/adaptive_asha_test.go, TestASHA
    searcher = Searcher(
        "adaptive_asha",
        "adaptive_asha",
        max_length=Length(1000, Unit.BATCHES),
        max_trials=10,
        divisor=2.0,
        mode="conservative",
        max_concurrent_trials=5,
    )
    rungs = (125, 250, 500, 1000)
    assert [found.rungs for found in brackets(searcher)] == [rungs, rungs[1:], rungs[2:], rungs[3:]]


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("aggressive", {1: [1], 2: [2], 3: [3], 5: [5]}),
        ("standard", {1: [1], 2: [2, 1], 3: [3, 2], 4: [4, 3, 2], 5: [5, 4, 3]}),
        ("conservative", {1: [1], 2: [2, 1], 5: [5, 4, 3, 2, 1]}),
    ],
)
def test_modes(mode: str, expected: dict[int, list[int]]) -> None:
    assert {count: bracket_rungs(mode, count) for count in expected} == expected


# by hand: rungs = min(max_rungs, halvings of the length + 1, halvings of the trials + 1)
@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ({"max_length": 937, "max_trials": 16}, [(3, 12, 8), (2, 4, 8)]),
        # weights 256/5, 64/4 and 16/3 of 72.53...: 361.4, 112.9, 37.6; 2 are left over
        ({"max_length": 10_000, "max_trials": 512}, [(5, 363, 6), (4, 112, 5), (3, 37, 5)]),
        ({"max_length": 10_000, "max_trials": 512, "max_rungs": 1}, [(1, 512, 16)]),
        ({"max_length": 10_000, "max_trials": 512, "mode": "aggressive"}, [(5, 512, 16)]),
        # fewer trials than the divisor, a length below it
        ({"max_length": 937, "max_trials": 1}, [(1, 1, 16)]),
        ({"max_length": 937, "max_trials": 2}, [(1, 2, 16)]),
        ({"max_length": 3, "max_trials": 100}, [(1, 100, 16)]),
        ({"max_length": 1, "max_trials": 1, "mode": "conservative"}, [(1, 1, 16)]),
        # 4 trials by 2 are 3 rungs: weights 4/3, 1, 1 -> 1.6, 1.2, 1.2; one is left over
        (
            {"max_length": 8, "max_trials": 4, "divisor": 2.0, "mode": "conservative"},
            [(3, 2, 6), (2, 1, 5), (1, 1, 5)],
        ),
        # more brackets than trials: each has one
        (
            {"max_length": 100, "max_trials": 2, "bracket_rungs": (1, 3, 2)},
            [(3, 1, 6), (2, 1, 5), (1, 1, 5)],
        ),
        # 1000 is 10^3: 4 rungs; weights 250, 33.3 and 5 of 288.3: 867, 115, 17; 1 is left over
        (
            {"max_length": 1000, "max_trials": 1000, "divisor": 10.0},
            [(4, 868, 6), (3, 115, 5), (2, 17, 5)],
        ),
    ],
)
def test_edges(keys: dict[str, Any], expected: list[tuple[int, int, int]]) -> None:
    assert adaptive(**keys) == expected


def searcher(name: str, **keys: Any) -> Searcher:
    return Searcher(name, name, max_length=Length(64, Unit.EPOCHS), **keys)


def test_searchers_with_one_bracket() -> None:
    assert brackets(searcher("single")) == (Bracket((64,), 1, 16),)
    assert brackets(searcher("random", max_trials=40)) == (Bracket((64,), 40, 16),)
    unlimited = searcher("random", max_trials=40, max_concurrent_trials=0)
    assert brackets(unlimited) == (Bracket((64,), 40, 40),)
    assert brackets(searcher("grid"), 12) == (Bracket((64,), 12, 16),)
    halving = searcher("async_halving", max_trials=40, num_rungs=3)
    assert brackets(halving) == (Bracket((4, 16, 64), 40, 16),)
    unlimited = searcher("async_halving", max_trials=40, num_rungs=3, max_concurrent_trials=0)
    assert brackets(unlimited) == (Bracket((4, 16, 64), 40, 16),)


def test_a_budget_takes_the_place_of_max_trials() -> None:
    # rungs 4, 16, 64 with 16, 4, 1 trials: 4*16 + 12*4 + 48*1 = 160 for one winner
    halving = searcher("async_halving", num_rungs=3, budget=Length(320, Unit.EPOCHS))
    assert brackets(halving)[0].max_trials == 32
    with pytest.raises(SearchError, match="in the same unit"):
        brackets(searcher("async_halving", num_rungs=3, budget=Length(320, Unit.BATCHES)))
    found = brackets(searcher("adaptive_asha", max_rungs=3, budget=Length(640, Unit.EPOCHS)))
    # brackets of 3 and 2 rungs with half of it each: 32 and 320 / (16*4 + 48) * 4 = 11
    assert sum(bracket.max_trials for bracket in found) == 43


def test_what_cannot_run_says_why() -> None:
    with pytest.raises(SearchError, match=r"searcher.name pbt: given up"):
        brackets(Searcher("pbt", "pbt", refusal="given up"))
    with pytest.raises(SearchError, match=r"set searcher\.max_length"):
        brackets(Searcher("random", "random", max_trials=2))


@pytest.mark.parametrize(
    ("num_rungs", "divisor", "max_length", "expected"),
    [
        # master/pkg/searcher/asha_stopping_test.go, TestMakeRungs and TestASHAStopping
        (3, 3, 9, (1, 3, 9)),
        (4, 2, 10, (1, 2, 5, 10)),
        (1, 3, 9, (9,)),
        (3, 3, 900, (100, 300, 900)),
        # by hand
        (3, 4, 937, (58, 234, 937)),
        (3, 4, 16, (1, 4, 16)),
        (4, 4, 15, (1, 1, 3, 15)),
        (5, 4, 1, (1, 1, 1, 1, 1)),
        (3, 2.5, 100, (16, 40, 100)),
        (2, 1.5, 100, (66, 100)),
    ],
)
def test_rungs_are_the_whole_length_over_powers_of_the_divisor(
    num_rungs: int, divisor: float, max_length: int, expected: tuple[int, ...]
) -> None:
    assert rung_lengths(num_rungs, divisor, max_length) == expected


@pytest.mark.parametrize(
    ("number", "divisor", "expected"),
    [
        (1, 4, 0),
        (3, 4, 0),
        (4, 4, 1),
        (15, 4, 1),
        (16, 4, 2),
        (100, 3, 4),
        (7, 2.5, 2),
        (6, 2.5, 1),
    ],
)
def test_halvings(number: int, divisor: float, expected: int) -> None:
    assert halvings(number, divisor, 99) == expected
    assert halvings(number, divisor, 1) == min(expected, 1)


@pytest.mark.parametrize("divisor", range(2, 20))
def test_halvings_of_powers_are_exact(divisor: int) -> None:
    # logarithms put 3^5, 10^3 and 17^3, for example, one too low
    for power in range(1, 12):
        assert halvings(divisor**power, divisor, 99) == power
        assert halvings(divisor**power - 1, divisor, 99) == power - 1


def test_an_older_searcher_says_its_budget() -> None:
    # by hand: rungs 1, 3, 9 with 9, 3, 1 trials train for 1*9 + 2*3 + 6*1 = 21 to find one winner
    assert trials_in_budget(3, 3, 9, 21) == 9
    assert trials_in_budget(3, 3, 9, 42) == 18
    assert trials_in_budget(3, 3, 9, 1) == 1

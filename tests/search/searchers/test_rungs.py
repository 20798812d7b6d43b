"""The expected numbers are those of Determined's own tests of its Go searchers, or by hand."""

from __future__ import annotations

import pytest

from det_compat.search.searchers.rungs import halvings, rung_lengths, trials_in_budget


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

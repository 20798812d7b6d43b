from __future__ import annotations

import pickle

from det_compat.search.searchers.brackets import Bracket
from det_compat.search.searchers.creation_order import CreationOrder


def queue(*brackets: tuple[int, int], replaces_invalid: bool = True) -> CreationOrder:
    """Of brackets with (max_trials, max_concurrent_trials)."""
    return CreationOrder(
        [Bracket((1,), *each) for each in brackets], replaces_invalid=replaces_invalid
    )


def all_now(trials: CreationOrder) -> list[tuple[int, int]]:
    return list(iter(trials.next, None))


def test_brackets_start_together_and_go_on_by_themselves() -> None:
    trials = queue((3, 2), (2, 1))
    assert all_now(trials) == [(0, 0), (1, 0), (2, 1)]
    trials.ended(1)
    trials.ended(0)
    assert all_now(trials) == [(3, 1), (4, 0)]
    for bracket in (0, 1, 0):
        assert not trials.is_over
        trials.ended(bracket)
    assert all_now(trials) == []
    assert trials.is_over


def test_an_invalid_trial_is_replaced() -> None:
    trials = queue((2, 2))
    assert len(all_now(trials)) == 2
    trials.ended(0, is_invalid=True)
    assert all_now(trials) == [(2, 0)]
    trials.ended(0)
    trials.ended(0)
    assert trials.is_over


def test_a_point_of_a_grid_is_not() -> None:
    trials = queue((1, 1), replaces_invalid=False)
    assert all_now(trials) == [(0, 0)]
    trials.ended(0, is_invalid=True)
    assert trials.is_over


def test_a_space_without_valid_values_ends() -> None:
    trials = queue((2, 1))
    for _ in range(100):
        assert trials.next() is not None
        trials.ended(0, is_invalid=True)
    assert trials.next() is None
    assert trials.is_over


def test_it_goes_on_where_it_was() -> None:
    trials = queue((3, 1))
    trials.next()
    again: CreationOrder = pickle.loads(pickle.dumps(trials))
    again.ended(0)
    assert again.next() == (1, 0)

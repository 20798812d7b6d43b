from __future__ import annotations

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
    ends = [(0, False), (1, True), (1, False), (0, True), (0, False), (1, False)]
    for number in range(len(ends)):
        trials, created = queue((5, 2), (4, 2)), []
        for bracket, is_invalid in ends[:number]:
            created += [found[1] for found in all_now(trials)]
            trials.ended(bracket, is_invalid=is_invalid)
        again = queue((5, 2), (4, 2))
        again.go_on(created, ends[:number])
        # What the queue held is created next, and after the same ends the same.
        for bracket, is_invalid in [*ends[number:], (0, False), (0, False)]:
            assert all_now(again) == all_now(trials)
            for each in (again, trials):
                each.ended(bracket, is_invalid=is_invalid)


def test_a_search_that_gave_up_goes_on_with_nothing() -> None:
    trials = queue((300, 200))
    trials.go_on([0] * 150, [(0, True)] * 100)
    assert all_now(trials) == []
    assert not trials.is_over

from __future__ import annotations

import pytest

from det_compat.migrate.to_lightning.passes import FIRST, PASSES, Holds, Pass


def misplaced(passes: tuple[Pass, ...]) -> list[str]:
    """The passes that need what is not there when they run."""
    holds, found = FIRST, []
    for each in passes:
        if each.needs & ~holds:
            found.append(each.apply.__name__)
        holds = (holds & ~each.takes) | each.leaves
    return found


def test_each_pass_finds_what_it_needs():
    assert misplaced(PASSES) == []


def test_nothing_is_left_in_the_end():
    assert PASSES[-1].takes == ~Holds.NONE
    for each in PASSES[:-1]:
        assert not each.takes & ~each.needs & ~Holds.OWN_ATTRIBUTES


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("rename_reserved", "rewrite_trials"),
        ("rewrite_trials", "write_out_steps"),
        ("rewrite_trials", "drop_aliases"),
        ("drop_aliases", "unwrap"),
        ("drop_aliases", "ask_module"),
        ("unwrap", "rewrite_reducers"),
        ("report_training", "rename_types"),
        ("rename_types", "put_back"),
    ],
)
def test_the_other_way_round_something_is_missing(first, second):
    names = [each.apply.__name__ for each in PASSES]
    assert names.index(first) < names.index(second)
    passes = [*PASSES]
    passes.insert(names.index(second) + 1, passes[names.index(first)])
    del passes[names.index(first)]
    assert misplaced(tuple(passes))

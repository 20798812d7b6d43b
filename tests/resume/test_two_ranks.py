from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.torchrun import on_two_ranks

CASES = [
    "lightning",
    "lightning with workers",
    "lightning that defers",
    "determined",
    "determined with workers",
]


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return on_two_ranks(Path(__file__).with_name("two_ranks.py"), tmp_path_factory)


@pytest.mark.xdist_group("two ranks")
@pytest.mark.parametrize("rank", [0, 1])
@pytest.mark.parametrize("case", CASES)
def test_a_resumed_run_ends_as_the_one_that_was_not(
    case: str, rank: int, ranks: list[dict[str, Any]]
) -> None:
    found = ranks[rank][case]
    assert isinstance(found, dict), found
    assert len(found) >= 4
    assert not {checkpoint: lines for checkpoint, lines in found.items() if lines}


@pytest.mark.xdist_group("two ranks")
def test_another_number_of_ranks_goes_on_and_says_what_changes(
    ranks: list[dict[str, Any]],
) -> None:
    # Steps are counted on: 3 are done, and an epoch on one rank has 11.
    for found in ranks:
        assert found["other"] == {"batches": 3, "left in the epoch": 8, "said": True}

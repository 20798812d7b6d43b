from __future__ import annotations

import pytest

from det_compat.pytorch import samplers
from tests.migrate.rewriting import rewritten

SOURCE = """\
from determined.pytorch import samplers


def sampler(base):
    return samplers.{0}(base, seed=3)
"""


@pytest.mark.parametrize("name", ["ReproducibleShuffleSampler", "ReproducibleShuffleBatchSampler"])
def test_the_order_is_the_same(tmp_path, name):
    made = rewritten(tmp_path, SOURCE.format(name))
    assert "MIGRATE" not in made and "determined" not in made
    found: dict = {}
    exec(made, found)
    items = [[1, 2], [3, 4], [5], [6, 7], [8]]
    ours, theirs = found["sampler"](items), getattr(samplers, name)(items, 3)
    assert [[*ours] for _ in range(3)] == [[*theirs] for _ in range(3)]
    assert len(ours) == len(items)


def test_a_sampler_that_skips_is_left(tmp_path):
    source = SOURCE.format("SkipSampler").replace("seed=3", "3")
    assert "# MIGRATE: pytorch.samplers.SkipSampler has no counterpart" in rewritten(
        tmp_path, source
    )

from __future__ import annotations

import pytest
import torch

from tests.migrate.rewriting import rewritten

SOURCE = """\
from determined.horovod import hvd


def asked(tensor):
    return {}
"""


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("hvd.size()", 1),
        ("hvd.rank() + hvd.local_rank()", 0),
        ('hvd.allreduce(tensor, name="tensor")', torch.ones(2)),
        ("hvd.allreduce(tensor, False)", torch.ones(2)),
        ("type(hvd.SyncBatchNorm(3))", torch.nn.SyncBatchNorm),
    ],
)
def test_what_horovod_was_asked_is_asked_of_torch(tmp_path, call, expected):
    made = rewritten(tmp_path, SOURCE.format(call))
    assert "MIGRATE" not in made and "determined" not in made
    found: dict = {}
    exec(made, found)
    given = found["asked"](torch.ones(2))
    assert torch.equal(given, expected) if torch.is_tensor(given) else given == expected


def test_a_mean_of_integers_is_one_and_none_asks_for_a_mean(tmp_path):
    found: dict = {}
    exec(rewritten(tmp_path, SOURCE.format("hvd.allreduce(tensor, average=None)")), found)
    dist = torch.distributed
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        with pytest.MonkeyPatch.context() as patch:
            # As if another process had as much: the sum of both is twice this one's.
            patch.setattr(dist.nn.functional, "all_reduce", lambda tensor: tensor * 2)
            patch.setattr(dist, "get_world_size", lambda: 2)
            for given in (torch.tensor([3]), torch.tensor([0.5])):
                reduced = found["asked"](given)
                assert reduced.dtype == given.dtype
                assert torch.equal(reduced, given)
    finally:
        dist.destroy_process_group()


@pytest.mark.parametrize("call", ["hvd.allreduce(tensor, op=hvd.Adasum)", "hvd.allgather(tensor)"])
def test_what_torch_does_in_another_way_is_left_to_the_reader(tmp_path, call):
    assert "# MIGRATE: horovod.hvd.all" in rewritten(tmp_path, SOURCE.format(call))

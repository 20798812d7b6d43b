from __future__ import annotations

import pytest
import torch

from tests.migrate.rewriting import rewritten, trial

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


MODEL = "torch.nn.Linear(2, 1)"


@pytest.mark.parametrize(
    ("line", "used"),
    [
        ("from horovod.torch.sync_batch_norm import SyncBatchNorm", "SyncBatchNorm"),
        ("from horovod.torch import SyncBatchNorm as Norm", "Norm"),
        ("import horovod.torch as hvd", "hvd.SyncBatchNorm"),
        ("import horovod.torch", "horovod.torch.SyncBatchNorm"),
    ],
)
def test_the_norm_of_horovod_is_that_of_torch(line, used, tmp_path):
    source = trial((MODEL, f"torch.nn.Sequential({MODEL}, {used}(1, momentum=0.3))"))
    made = rewritten(tmp_path, f"{line}\n{source}")
    assert "torch.nn.SyncBatchNorm(1, momentum=0.3)" in made
    assert "horovod" not in made and "MIGRATE" not in made


@pytest.mark.parametrize(
    ("call", "is_left"),
    [("hvd.size()", False), ("hvd.allreduce(batch)", False), ("hvd.poll()", True)],
)
def test_horovod_itself_is_not_started(call, is_left, tmp_path):
    source = trial(("loss = self", f"{call}\n        loss = self"))
    made = rewritten(tmp_path, f"import horovod.torch as hvd\n{source}")
    said = "# MIGRATE: Lightning starts no Horovod, which this needs"
    assert (said in made) == ("import horovod" in made) == is_left

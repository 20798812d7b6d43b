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


@pytest.mark.parametrize("call", ["hvd.allreduce(tensor, op=hvd.Adasum)", "hvd.allgather(tensor)"])
def test_what_torch_does_in_another_way_is_left_to_the_reader(tmp_path, call):
    assert "# MIGRATE: horovod.hvd.all" in rewritten(tmp_path, SOURCE.format(call))

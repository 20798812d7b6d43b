from __future__ import annotations

import pytest

from tests.migrate.rewriting import rewritten, trial

CLASS = """\
class Shard{bases}:
    def __init__(self, dist, size=1):
        self.dist, self.size = dist, size

    def of(self, data):
        return data[self.dist.get_rank() :: self.dist.size]


"""
FUNCTION = """\
def shard(data, dist):
    return data[dist.rank :: {0}]


"""


def _using(defined, call):
    return trial(
        ("class Trial", f"{defined}class Trial"),
        ("return DataLoader([], b", f"return DataLoader({call}, b"),
    )


@pytest.mark.parametrize(
    ("defined", "call", "made", "inside"),
    [
        (
            FUNCTION.format("dist.get_size()"),
            "shard([], self.context.distributed)",
            "shard([], self)",
            "data[dist.global_rank :: dist.trainer.world_size]",
        ),
        (
            FUNCTION.format("dist.get_size()"),
            "shard(dist=self.context.distributed, data=[])",
            "shard(dist=self, data=[])",
            "data[dist.global_rank :: dist.trainer.world_size]",
        ),
        (
            CLASS.format(bases=""),
            "Shard(self.context.distributed).of([])",
            "Shard(self).of([])",
            "data[self.dist.global_rank :: self.dist.trainer.world_size]",
        ),
        (
            CLASS.format(bases="(torch.nn.Module)").replace(
                "self.dist, self.size = dist, size", "self.dist = dist"
            ),
            "Shard(self.context.distributed).of([])",
            'object.__setattr__(self, "dist", dist)',
            "data[self.dist.global_rank :: self.dist.trainer.world_size]",
        ),
    ],
)
def test_code_that_asks_for_ranks_alone_is_handed_the_module(defined, call, made, inside, tmp_path):
    text = rewritten(tmp_path, _using(defined, call))
    assert "MIGRATE" not in text
    assert made in text
    assert inside in text


@pytest.mark.parametrize(
    ("defined", "call"),
    [
        # Nobody knows what a library's asks for, or what else is asked of it.
        ("from sharding import shard\n\n\n", "shard([], self.context.distributed)"),
        (FUNCTION.format("dist.count()"), "shard([], self.context.distributed)"),
        (FUNCTION.format("size_of(dist)"), "shard([], self.context.distributed)"),
        (FUNCTION.format("dist.get_size()"), "shard(*[[], self.context.distributed])"),
    ],
)
def test_what_may_ask_for_more_is_handed_what_it_was_and_marked(defined, call, tmp_path):
    text = rewritten(tmp_path, _using(defined, call))
    assert "# MIGRATE: the context's distributed has no counterpart" in text
    assert "self.context.distributed" in text

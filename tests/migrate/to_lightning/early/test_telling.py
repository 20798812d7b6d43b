from __future__ import annotations

import pytest

from tests.migrate.rewriting import method, rewritten, trial


@pytest.mark.parametrize(
    ("line", "after"),
    [
        (
            'print(f"rank {context.distributed.rank} of {context.distributed.size}")',
            'print(f"rank {self.global_rank} of {self.trainer.world_size}")',
        ),
        (
            "logging.info('%d', context.get_per_slot_batch_size())",
            "logging.info('%d', self.hparams.global_batch_size // self.trainer.world_size)",
        ),
        (
            "size = context.distributed.get_size()\n        print('processes', size)",
            "print('processes', self.trainer.world_size)",
        ),
        (
            "rank, size = context.distributed.get_rank(), context.distributed.get_size()\n"
            "        print(rank, size)",
            "print(self.global_rank, self.trainer.world_size)",
        ),
        (
            "if context.distributed.rank == 0:\n            print(context.distributed.size)",
            "if self.global_rank == 0:\n            print(self.trainer.world_size)",
        ),
        ("print(context.device)", "print(self.trainer.strategy.root_device)"),
        (
            "if context.distributed.size > 1:\n            raise ValueError('one process only')",
            "",
        ),
        ("opened = 1\n        print(opened, context.distributed.size)", ""),
        ("count(context.distributed.size)", ""),
    ],
)
def test_what_only_tells_how_many_processes_there_are_is_told_when_they_are_known(
    line, after, tmp_path
):
    """A module that took their number for it would refuse any other."""
    made = rewritten(tmp_path, trial(("lr=0.1))\n", f"lr=0.1))\n        {line}\n")))
    assert ("world_size: int = 1" in made or "device_of_process" in made) is not bool(after)
    assert (f"    def setup(self, stage):\n        {after}\n" in made) is bool(after)
    assert "    size = " not in method(made, "__init__")


def test_what_also_tells_something_without_a_counterpart_stays(tmp_path):
    told = "print(context.n_gpus, context.distributed.get_size())"
    made = rewritten(tmp_path, trial(("self.context = context\n", f"{told}\n")))
    assert "MIGRATE: the context's n_gpus has no counterpart" in made
    assert "print(self.context.n_gpus, " in method(made, "__init__")

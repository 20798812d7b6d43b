from __future__ import annotations

import json

import pytest

from tests.migrate.rewriting import method, rewritten, trial
from tests.preloaded import python

VALIDATING = """\
        batches = torch.utils.data.BatchSampler(range({rows}), 2, drop_last=False)
        place = self.context.distributed
        batches = samplers.DistributedBatchSampler(batches, place.get_size(), place.get_rank())
        return torch.utils.data.DataLoader(torch.arange({rows}.0), batch_sampler=batches)
"""
RUN = """
if __name__ == "__main__":
    import json

    flags = {"accelerator": "cpu", "logger": False, "enable_progress_bar": False}
    trainer = pl.Trainer(devices=2, strategy="ddp", use_distributed_sampler=False, **flags)
    found = trainer.validate(Trial(global_batch_size=4), verbose=False)
    if trainer.is_global_zero:
        with open("found.json", "w") as file:
            json.dump(found, file)
"""


def source(validating: str) -> str:
    return trial(
        ("        return DataLoader([], batch_size=4)\n", validating),
        ("import DataLoader", "import samplers, DataLoader"),
        ('{"error": self.model(batch).sum()}', '{"error": batch.sum()}'),
    )


@pytest.mark.timeout(120)
def test_each_batch_counts_the_same_where_one_device_has_more(tmp_path):
    """Five batches are three on one device and two on the other."""
    made = rewritten(tmp_path, source(VALIDATING.format(rows=9)))
    assert "MIGRATE" not in made
    (tmp_path / "train.py").write_text(made + RUN)
    ran = python("train.py", cwd=tmp_path, side="neither")
    assert not ran.returncode, ran.stderr
    (found,) = json.loads((tmp_path / "found.json").read_text())
    assert found == {"error": pytest.approx(sum(range(9)) / 5)}


@pytest.mark.parametrize(
    ("loader", "is_shared"),
    [
        ("        return DataLoader([], batch_size=4)\n", False),
        (
            "        return DataLoader(list(range(9))[0 :: self.context.distributed.size], 4)\n",
            True,
        ),
        (VALIDATING.format(rows=8), True),
    ],
)
def test_a_loader_that_lightning_shares_out_gives_each_device_as_many(loader, is_shared, tmp_path):
    step = method(rewritten(tmp_path, source(loader)), "validation_step")
    assert ("batch_size=self.trainer.world_size, sync_dist=True" in step) is is_shared
    assert ("batch_size=1, sync_dist=True" in step) is not is_shared

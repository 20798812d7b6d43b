from __future__ import annotations

import itertools
import json
from types import SimpleNamespace

import pytest
import torch

from det_compat.pytorch import DataLoader, adapt_batch_sampler, samplers
from tests.migrate.rewriting import rewritten, trial
from tests.preloaded import python

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


_CHAIN = """\
from determined.pytorch import samplers


def sampler(base):
    base = samplers.RepeatSampler(base)
    base = samplers.DistributedSampler(base, num_workers=3, rank=1)
    return samplers.SkipSampler(base, 2)
"""


def test_a_chain_of_samplers_has_the_order_that_it_had(tmp_path):
    made = rewritten(tmp_path, _CHAIN)
    assert "MIGRATE" not in made and "determined" not in made
    found: dict = {}
    exec(made, found)
    chain = samplers.RepeatSampler(range(7))
    chain = samplers.SkipSampler(samplers.DistributedSampler(chain, 3, 1), 2)
    ours, theirs = found["sampler"](range(7)), iter(chain)
    # Lightning makes an iterator for each epoch, Determined had one for all of them.
    epochs = [next(iter(ours)) for _ in range(20)]
    assert epochs == [next(theirs) for _ in range(20)]
    assert len(ours) == len(chain)
    assert isinstance(ours, torch.utils.data.DistributedSampler)


_SKIPPED = """\
from determined.pytorch import PyTorchTrialContext, samplers


def sampler(context: PyTorchTrialContext, base):
    {0}
"""


@pytest.mark.parametrize(
    "lines",
    [
        "base = samplers.RepeatBatchSampler(base)\n"
        "    base = samplers.DistributedBatchSampler(base, 2, 1)\n"
        "    base = samplers.SkipBatchSampler(base, context.get_initial_batch())\n"
        "    return base",
        "repeated = samplers.RepeatBatchSampler(base)\n"
        "    shared = samplers.DistributedBatchSampler(repeated, 2, 1)\n"
        "    return samplers.SkipBatchSampler(shared, context.get_initial_batch())",
        "return samplers.SkipBatchSampler(samplers.DistributedBatchSampler("
        "samplers.RepeatBatchSampler(base), 2, 1), context.get_initial_batch())",
    ],
)
def test_batches_without_end_go_on_where_a_run_has_ended(tmp_path, lines):
    made = rewritten(tmp_path, _SKIPPED.format(lines))
    assert "MIGRATE" not in made and "determined" not in made
    found: dict = {}
    exec(made, found)
    batches = [[0, 1], [2, 3], [4], [5, 6], [7]]
    module = SimpleNamespace(trainer=SimpleNamespace(fit_loop=SimpleNamespace(total_batch_idx=6)))
    ours = found["sampler"](module, batches)
    chain = samplers.DistributedBatchSampler(samplers.RepeatBatchSampler(batches), 2, 1)
    theirs = iter(samplers.SkipBatchSampler(chain, 7))
    assert [[*ours], [*ours]] == [[next(theirs) for _ in range(3)] for _ in range(2)]


_SHARED = """\
from determined.pytorch import samplers


def sampler(base, size, rank):
    return samplers.DistributedBatchSampler(base, rank=rank, num_workers=size)
"""


def test_a_batch_sampler_of_any_process_has_its_batches(tmp_path):
    made = rewritten(tmp_path, _SHARED)
    assert "MIGRATE" not in made and "determined" not in made
    found: dict = {}
    exec(made, found)
    batches = [[0, 1], [2, 3], [4], [5, 6], [7]]
    ours, theirs = found["sampler"](batches, 2, 1), samplers.DistributedBatchSampler(batches, 2, 1)
    assert [*ours] == [*ours] == [*theirs]
    assert len(ours) == len(theirs)


_LOADER = """from determined.pytorch import DataLoader, adapt_batch_sampler


def loader(data):
    return DataLoader(data, batch_size=2).get_data_loader(repeat=True, num_replicas=2, rank=1)


def batches(batches):
    return adapt_batch_sampler(batches, repeat=True, skip=1, num_replicas=2, rank=0)
"""


def test_a_loader_by_hand_and_batches_in_epochs_have_the_order_that_they_had(tmp_path):
    made = rewritten(tmp_path, _LOADER)
    assert "MIGRATE" not in made and "determined" not in made
    found: dict = {}
    exec(made, found)
    ours = found["loader"](range(10))
    theirs = DataLoader(range(10), batch_size=2).get_data_loader(True, 0, 2, 1)
    assert len(ours) == len(theirs)
    pairs = itertools.islice(zip(ours, theirs, strict=True), 9)
    assert all(torch.equal(one, other) for one, other in pairs)
    batches = [[0, 1], [2, 3], [4], [5, 6], [7]]
    adapted = adapt_batch_sampler(batches, repeat=True, skip=1, num_replicas=2)
    epochs = found["batches"](batches)
    assert len(epochs) == len(adapted) == 3
    assert [each for _ in range(4) for each in epochs] == [*itertools.islice(adapted, 12)]
    assert [*itertools.islice(found["AdaptedBatches"](batches), 9)] == batches


_SHARING = """\
        batches = torch.utils.data.BatchSampler(range(11), 2, drop_last=False)
        batches = samplers.ReproducibleShuffleBatchSampler(batches, 3)
        batches = samplers.RepeatBatchSampler(batches)
        size, rank = self.context.distributed.get_size(), self.context.distributed.get_rank()
        return torch.utils.data.DataLoader(
            torch.arange(22.0).reshape(11, 2),
            batch_sampler=samplers.DistributedBatchSampler(batches, size, rank),
        )
"""
_TWO_PROCESSES = """
if __name__ == "__main__":
    import json, sys

    class Seeing(Trial):
        def training_step(self, batch, batch_idx):
            seen.append((batch[:, 0] / 2).tolist())
            return super().training_step(batch, batch_idx)

    seen = []
    flags = {"accelerator": "cpu", "logger": False, "enable_checkpointing": False}
    trainer = pl.Trainer(max_epochs=2, devices=2, strategy="ddp", limit_val_batches=0, **flags)
    trainer.fit(Seeing())
    with open(f"{trainer.global_rank}.json", "w") as file:
        json.dump(seen, file)
"""


@pytest.mark.timeout(120)
def test_each_of_two_processes_trains_with_the_batches_that_it_had(tmp_path):
    """Lightning makes loaders anew in several processes, and keeps of batches what it knows."""
    source = trial(
        (
            "        return DataLoader([], batch_size=self.context.get_per_slot_batch_size())\n",
            _SHARING,
        ),
        ("import DataLoader", "import samplers, DataLoader"),
    )
    (tmp_path / "train.py").write_text(rewritten(tmp_path, source) + _TWO_PROCESSES)
    ran = python("train.py", cwd=tmp_path, side="neither")
    assert not ran.returncode, ran.stderr
    for rank in range(2):
        chain = torch.utils.data.BatchSampler(range(11), 2, drop_last=False)
        chain = samplers.ReproducibleShuffleBatchSampler(chain, 3)
        chain = samplers.DistributedBatchSampler(samplers.RepeatBatchSampler(chain), 2, rank)
        seen = json.loads((tmp_path / f"{rank}.json").read_text())
        assert seen == [*itertools.islice(chain, 6)]


_UNDER_A_CONDITION = """\
def sharded(rows, place, train):
    batches = torch.utils.data.BatchSampler(rows, 2, drop_last=False)
{repeating}    size, rank = place.get_size(), place.get_rank()
    batches = samplers.DistributedBatchSampler(batches, size, rank)
    return torch.utils.data.DataLoader(rows, batch_sampler=batches)


class Trial("""


@pytest.mark.parametrize(
    ("repeating", "when"),
    [
        (["if train:", "    batches = samplers.RepeatBatchSampler(batches)"], "train"),
        (["batches = samplers.RepeatBatchSampler(batches) if train else batches"], "train"),
        (
            [
                "if not train:",
                "    rows = list(rows)",
                "else:",
                "    batches = samplers.RepeatBatchSampler(batches)",
            ],
            "not (not train)",
        ),
        (
            [
                "if train:",
                "    if len(rows) != 1:",
                "        batches = samplers.RepeatBatchSampler(batches)",
            ],
            None,
        ),
        (
            [
                "train = not train",
                "if train:",
                "    batches = samplers.RepeatBatchSampler(batches)",
            ],
            None,
        ),
        (["batches = samplers.RepeatBatchSampler(batches)"], "True"),
        ([], "False"),
    ],
)
def test_batches_are_repeated_where_they_were(repeating, when, tmp_path):
    lines = "".join(f"    {line}\n" for line in repeating)
    loader = "DataLoader([], batch_size=self.context.get_per_slot_batch_size())"
    made = rewritten(
        tmp_path,
        trial(
            (
                f"        return {loader}\n",
                "        return sharded(range(9), self.context.distributed, True)\n",
            ),
            (
                "        return DataLoader([], batch_size=4)\n",
                "        return sharded(range(9), self.context.distributed, False)\n",
            ),
            ("import DataLoader", "import samplers, DataLoader"),
            ("class Trial(", _UNDER_A_CONDITION.format(repeating=lines)),
        ),
    )
    if when is None:
        assert "# MIGRATE" in made
        return
    start = (
        "AdaptedBatches(batches, " if when == "False" else f"AdaptedEpochs(batches, repeat={when}, "
    )
    assert f"batches = {start}num_replicas=" in " ".join(made.split()).replace("( ", "(")
    assert "MIGRATE" not in made
    assert "pass\n" not in made


def test_what_others_derive_from_stands_above_them(tmp_path):
    function = """\
def {0}(base):
{1}    return samplers.DistributedBatchSampler(base, 2, 1)
"""
    training = function.format("train", "    base = samplers.RepeatBatchSampler(base)\n")
    both = [training, function.format("validate", "")]
    for parts in (both, both[::-1]):
        source = "\n\n".join(["from determined.pytorch import samplers\n", *parts])
        found: dict = {}
        exec(rewritten(tmp_path, source), found)
        batches = [[0], [1], [2]]
        assert [*found["validate"](batches)] == [[1]]
        assert [*found["train"](batches)] == [[1], [0]]

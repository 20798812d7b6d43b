"""Training data that Determined went through with one iterator go on from epoch to epoch."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest
import pytorch_lightning as pl
import torch

from det_compat.pytorch import adapt_batch_sampler
from tests.migrate.rewriting import HEADER, method, rewritten, trial

ANY = (
    "        self.opt = ",
    "        context.experimental.disable_dataset_reproducibility_checks()\n        self.opt = ",
)
PLAIN = "torch.utils.data.DataLoader"
LOADER = "DataLoader([], batch_size=self.context.get_per_slot_batch_size())"
ROWS = """\
class Rows(torch.utils.data.IterableDataset):
    def __init__(self):
        self.waiting = []

    def __len__(self):
        return 6

    def __iter__(self):
{}


def make_rows():
    return Rows()

"""
ENDLESS = """\
        at = 0
        while True:
            yield torch.full((2,), float(at))
            at += 1
"""
CYCLE = "        return itertools.cycle(torch.arange(16.0).reshape(8, 2))\n"
# What is left of a bucket would never let it be full again.
BUCKETS = """\
        for at in range(100):
            self.waiting.append(torch.full((2,), float(at)))
            if len(self.waiting) == 1:
                yield self.waiting[0]
                del self.waiting[:]
"""


def made(tmp_path, rows: str, loader: str, *changes: tuple[str, str]) -> str:
    header = HEADER.replace("import torch\n", "import itertools\nimport torch\n", 1)
    header += ROWS.format(rows)
    return rewritten(tmp_path, trial(ANY, (LOADER, loader), *changes, header=header))


def trained(source: str, epochs: int) -> list[float]:
    """The first number of each batch that a Trainer's epochs give to the module."""
    names: dict[str, type[pl.LightningModule]] = {}
    exec(source, names)
    seen: list[float] = []

    class Watched(names["Trial"]):  # type: ignore[misc]
        def on_train_batch_start(self, batch, batch_idx):
            seen.append(batch.flatten()[0].item())

    pl.Trainer(
        max_epochs=epochs,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        limit_val_batches=0,
    ).fit(Watched())
    return seen


@pytest.mark.parametrize(
    ("rows", "loader", "expected"),
    [
        (ENDLESS, f"{PLAIN}(Rows(), batch_size=2)", [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]),
        (ENDLESS, f"{PLAIN}(make_rows(), batch_size=2)", [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]),
        (CYCLE, f"{PLAIN}(Rows(), batch_size=2)", [0.0, 4.0, 8.0, 12.0, 0.0, 4.0]),
        (BUCKETS, "Rows()", [float(at) for at in range(12)]),
    ],
)
def test_the_second_epoch_goes_on(tmp_path, rows, loader, expected):
    source = made(tmp_path, rows, loader)
    assert "return Continued(" in method(source, "train_dataloader")
    assert "MIGRATE" not in source
    assert "# Lightning goes by the __len__" not in source
    assert rewritten(tmp_path, source) == source
    assert trained(source, 2) == expected


COUNTED = """\
class Counted(torch.utils.data.Sampler):
    def __init__(self):
        pass

    def __len__(self):
        return 5

    def __iter__(self):
        for at in range(0, 6, 2):
            yield [at, at + 1]


"""


def test_batches_of_a_sampler_begin_again_within_an_epoch(tmp_path):
    loader = "DataLoader(torch.arange(12.0).reshape(6, 2), batch_sampler=Counted())"
    header = HEADER + COUNTED
    source = rewritten(tmp_path, trial((LOADER, loader), header=header))
    assert "MIGRATE" not in source
    # As Determined's loader did: five batches an epoch, of a sampler that gives three.
    assert trained(source, 2) == [0.0, 4.0, 8.0, 0.0, 4.0, 8.0, 0.0, 4.0, 8.0, 0.0]


NESTED = """\
        def whole(rows):
            return torch.stack(rows)

        return {}"""


def test_each_process_has_its_share_of_the_batches_also_when_a_run_goes_on(tmp_path):
    loader = (
        "DataLoader(torch.arange(12.0).reshape(6, 2), batch_sampler=Counted(), collate_fn=whole)"
    )
    change = (f"        return {LOADER}", NESTED.format(loader))
    source = rewritten(tmp_path, trial(change, header=HEADER + COUNTED))
    names: dict[str, Any] = {}
    exec(source, names)
    assert "return torch.stack(rows)" in source

    def share(rank: int, trained: int = 0) -> Any:
        module = names["Trial"]()
        fit_loop = SimpleNamespace(total_batch_idx=trained - 1)
        module.trainer = SimpleNamespace(global_rank=rank, world_size=2, fit_loop=fit_loop)
        return module.train_dataloader()

    def firsts(loader: Any, count: int) -> list[float]:
        return [batch.flatten()[0].item() for batch in itertools.islice(loader, count)]

    expected = [determineds_batches(rank) for rank in range(2)]
    assert [firsts(share(rank), 8) for rank in range(2)] == expected
    assert len(share(0)) == len(share(1)) == 3
    assert firsts(share(1, trained=5), 3) == expected[1][5:]


def determineds_batches(rank: int) -> list[float]:
    """What Determined gave one of two processes."""
    names: dict[str, Any] = {"torch": torch}
    exec(COUNTED, names)
    batches = adapt_batch_sampler(names["Counted"](), repeat=True, num_replicas=2, rank=rank)
    return [2.0 * batch[0] for batch in itertools.islice(batches, 8)]


def test_data_that_end_before_their_length_begin_again(tmp_path):
    rows = "        yield from torch.arange(8.0).reshape(4, 2)\n"
    assert trained(made(tmp_path, rows, "Rows()"), 2) == [0.0, 2.0, 4.0, 6.0] * 3


@pytest.mark.parametrize(
    ("rows", "loader", "changes"),
    [
        ("        for at in range(6):\n            yield at\n", "Rows()", ()),
        # Determined's own loader is shared out among processes, which Lightning has to see.
        (ENDLESS, "DataLoader([], sampler=Rows(), batch_size=2)", ()),
        (ENDLESS, f"{PLAIN}([], batch_size=2)", (("DataLoader([], batch_size=4)", "Rows()"),)),
        (ENDLESS, f"{PLAIN}(Rows(), batch_size=2)", ((f"{ANY[1]}", ANY[0]),)),
    ],
)
def test_what_is_the_same_begins_again(tmp_path, rows, loader, changes):
    assert "Continued" not in made(tmp_path, rows, loader, *changes)


def test_a_stream_is_told_how_many_batches_were_trained(tmp_path):
    given = f"{PLAIN}(Rows(), batch_size=2 + 0 * self.context.get_initial_batch())"
    source = made(tmp_path, ENDLESS, given)
    assert "0 * (self.trainer.fit_loop.total_batch_idx + 1)" in source
    names: dict[str, type[pl.LightningModule]] = {}
    told: list[int] = []
    exec(source.replace("return Continued(", "tell(self)\n        return Continued("), names)
    names["tell"] = lambda module: told.append(module.trainer.fit_loop.total_batch_idx + 1)
    flags = {
        "accelerator": "cpu",
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "limit_val_batches": 0,
    }
    trainer = pl.Trainer(max_epochs=2, **flags)
    trainer.fit(names["Trial"]())
    trainer.save_checkpoint(tmp_path / "last.ckpt")
    resumed = pl.Trainer(max_epochs=3, **flags)
    resumed.fit(names["Trial"](), ckpt_path=tmp_path / "last.ckpt")
    assert told == [0, 6]
    assert torch.load(tmp_path / "last.ckpt", weights_only=False)["global_step"] == 6


def test_processes_with_shares_of_their_own_have_as_many_batches(tmp_path, monkeypatch):
    rows = ENDLESS.replace("at = 0", "at = rank = 0")
    source = made(tmp_path, rows, f"{PLAIN}(Rows(), batch_size=2)")
    names: dict[str, Any] = {}
    exec(source, names)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    told = []
    monkeypatch.setattr(
        torch.distributed, "broadcast_object_list", lambda x: (told.append(x[0]), x.insert(0, 5))
    )
    loader = names["Continued"](range(6))
    assert len(loader) == len(loader) == 5 and told == [6]
    assert "broadcast" not in made(tmp_path, ENDLESS, f"{PLAIN}(Rows(), batch_size=2)")

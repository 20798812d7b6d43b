from __future__ import annotations

import pytest

from det_compat.migrate.to_lightning.data.shared_out import RANKS
from tests.migrate.rewriting import HEADER, method, rewritten, trial


def test_names_and_types(tmp_path):
    made = rewritten(tmp_path, trial())
    assert method(made, "train_dataloader") == (
        "def train_dataloader(self):\n"
        "    # Lightning shuffles this in several processes\n"
        "    return DataLoader([], batch_size=self.hparams.global_batch_size // "
        "self.trainer.world_size)"
    )
    assert "from torch.utils.data import DataLoader\n" in made


def test_calls_follow(tmp_path):
    change = (
        'return {"error"',
        'n = len(self.build_training_data_loader())\n        return {"error"',
    )
    assert "len(self.train_dataloader())" in rewritten(tmp_path, trial(change))


def test_a_class_that_is_no_trial_keeps_its_methods(tmp_path):
    loop = """

class Loop:
    def build_training_data_loader(self):
        return [1, 2]

    def run(self, trial):
        return self.build_training_data_loader(), trial.build_training_data_loader()
"""
    made = rewritten(tmp_path, trial() + loop)
    assert "return self.build_training_data_loader(), trial.train_dataloader()" in made


def test_what_lightning_does_by_itself(tmp_path):
    source = """\
    from determined.pytorch import PyTorchTrialContext, samplers

    def sampler(base, context: PyTorchTrialContext):
        ranks = context.distributed
        base = samplers.RepeatBatchSampler(base)
        base = samplers.DistributedBatchSampler(base, ranks.size, ranks.get_rank())
        return samplers.SkipBatchSampler(base, context.get_initial_batch())
    """
    made = rewritten(tmp_path, source)
    assert "base = base\n" not in made
    assert "base = AdaptedEpochs( base, repeat=True, num_replicas=" in " ".join(made.split())
    assert "skip=context.trainer.fit_loop.total_batch_idx + 1" in made
    assert "determined" not in made


SHARD = "rows[self.context.distributed.{rank} :: self.context.distributed.size]"


@pytest.mark.parametrize(
    ("loader", "rank", "is_marked"),
    [
        ("torch.utils.data.DataLoader({})", "rank", True),
        ("torch.utils.data.DataLoader(Lines({}))", "get_rank()", True),
        ("DataLoader({})", "rank", False),
        ("torch.utils.data.DataLoader({})", "size", False),
        ("torch.utils.data.DataLoader(Stream({}))", "rank", False),
        ("torch.utils.data.DataLoader(rows, batch_sampler=Lines({}))", "rank", False),
        (
            "torch.utils.data.DataLoader(rows, batch_sampler=BatchSampler(Lines({}), 2, True))",
            "rank",
            False,
        ),
        ("torch.utils.data.DataLoader(rows, sampler=DistributedSampler({}))", "rank", False),
    ],
)
def test_data_are_not_sharded_twice_in_silence(tmp_path, loader, rank, is_marked):
    made = loader.format(SHARD.format(rank=rank))
    header = f"{HEADER}class Lines:\n    def __getitem__(self, i): ...\n"
    header += "class Stream:\n    def __iter__(self): ...\n"
    source = trial(("DataLoader([], batch_size=4)", made), header=header)
    said = "# MIGRATE: on several devices Lightning shards again what is sharded here"
    assert (said in rewritten(tmp_path, source)) is is_marked


def test_a_rank_that_init_keeps_shards_too(tmp_path):
    kept = "self.rank, self.n = context.distributed.rank, context.distributed.get_size()"
    loader = "torch.utils.data.DataLoader([], sampler=Rows(self.rank, self.n))"
    source = trial(
        ("self.context = context", f"self.context = context\n        {kept}"),
        ("DataLoader([], batch_size=4)", loader),
    )
    assert "# MIGRATE: on several devices Lightning shards again" in rewritten(tmp_path, source)


@pytest.mark.parametrize("asked", ["size", "rank"])
def test_data_that_are_handed_the_context_shard_too(asked, tmp_path):
    header = (
        f"{HEADER}class Rows:\n    def __init__(self, context):\n"
        f"        ranks = context.distributed\n"
        f"        self.rows = rows[context.distributed.get_{asked}() :: ranks.size]\n"
        "        self.n = context.distributed.size\n\n\n"
    )
    loader = "torch.utils.data.DataLoader(Rows(self.context))"
    source = trial(("DataLoader([], batch_size=4)", loader), header=header)
    said = "# MIGRATE: on several devices Lightning shards again"
    assert (said in rewritten(tmp_path, source)) is (asked == "rank")


def test_methods_of_the_class_body(tmp_path):
    change = (
        "    def build_validation_data_loader(self):\n        return DataLoader([], batch_size=4)",
        "    build_validation_data_loader = build_training_data_loader",
    )
    made = rewritten(tmp_path, trial(change))
    assert "    val_dataloader = train_dataloader\n" in made


COLLATE = """\
import numpy as np


def collate(samples):
    return np.stack(samples)


class Trial"""
STAYS = ("self.context = context", "self.context = context\n        {}")


@pytest.mark.parametrize(
    ("source", "loader", "are_made"),
    [
        ("np.stack(samples)", "DataLoader([], batch_size=4, collate_fn=collate)", True),
        ("torch.stack(samples)", "DataLoader([], batch_size=4, collate_fn=collate)", False),
        ("np.stack(samples)", "OTHERS", True),
        # Another loader of the file collates so.
        ("np.stack(samples)", "DataLoader([], batch_size=4)", False),
    ],
)
def test_arrays_become_tensors(tmp_path, source, loader, are_made):
    changes = (
        ("class Trial", COLLATE.replace("np.stack(samples)", source)),
        ("DataLoader([], batch_size=4)", loader),
        (
            "class Trial",
            "OTHERS = DataLoader([], batch_size=4, collate_fn=collate)\n\n\nclass Trial",
        ),
    )
    made = rewritten(tmp_path, trial(*changes))
    assert ("return torch.utils.data.default_convert(batch)" in made) == are_made


def test_batches_that_stay(tmp_path):
    call = "context.experimental.disable_auto_to_device()"
    changes = (
        ("self.context = context", f"self.context = context\n        {call}"),
        ("self.model(batch).sum()}", "self.model(self.context.to_device(batch)).sum()}"),
    )
    made = rewritten(tmp_path, trial(*changes))
    assert method(made, "transfer_batch_to_device").endswith("    return batch")
    assert "self.model(move_data_to_device(batch, self.device))" in made
    assert "from pytorch_lightning.utilities import move_data_to_device\n" in made
    assert "MIGRATE" not in made


def test_sharding_that_lightning_does_is_dropped_where_nothing_else_is_left_of_a_chain(tmp_path):
    source = (
        "from determined.pytorch import samplers\n\n\n"
        "def made(sampler, context: PyTorchTrialContext, n):\n"
        "    a = samplers.DistributedSampler(sampler, context.distributed.size, 0)\n"
        "    return samplers.SkipSampler(a, {})\n"
    )
    for skip, after in (("2", "SkipSampler(a, 2)"), ("n * context.get_initial_batch()", "a")):
        made = rewritten(tmp_path, trial() + "\n\n" + source.format(skip))
        is_kept = skip == "2"
        assert f"    return {after}\n" in made and "MIGRATE" not in made
        assert ("    a = sampler\n" in made) is not is_kept
        assert ("    a = DistributedSampler(sampler, context.trainer.world_size, 0)" in made) is (
            is_kept
        )


def test_a_loader_that_a_trial_goes_through_itself_stays_shared_out(tmp_path):
    share = "num_replicas=context.distributed.get_size(), rank=context.distributed.get_rank()"
    kept = "self.context = context\n        self.more = DataLoader([]).get_data_loader({})\n"
    given = kept.format(f"repeat=False, {share}")
    made = rewritten(tmp_path, trial(("self.context = context\n", given)))
    adapted = "adapted_loader(DataLoader([]), repeat=False, num_replicas=self.hparams.world_size, "
    assert adapted in " ".join(made.split()).replace("( ", "(")
    # Where processes are no processes of a launcher, all have one rank by then.
    assert f"        {RANKS}\n        self.more = adapted_loader(" in made
    own = trial(("DataLoader([], batch_size=4)", f"DataLoader([]).get_data_loader({share})"))
    made = rewritten(tmp_path, own.replace("=context.", "=self.context."))
    assert "        return DataLoader([])\n" in made and RANKS not in made


@pytest.mark.parametrize(
    ("given", "after"),
    [
        ("", "make()"),
        ("num_replicas=2, rank=1", "adapted_loader(make(), num_replicas=2, rank=1)"),
    ],
)
@pytest.mark.parametrize("is_own", [False, True])
def test_get_data_loader_is_determineds_or_a_method_of_the_code(tmp_path, given, after, is_own):
    before = f"self.context = context\n        print(make().get_data_loader({given}))\n"
    changes = [("self.context = context\n", before), ("class T", "make = print\n\n\nclass T")]
    if is_own:
        (tmp_path / "sets.py").write_text(
            "import model_def\nclass Set:\n    def get_data_loader(self, **kwargs):\n        pass\n"
        )
        after = f"make().get_data_loader({given})"
    made = rewritten(tmp_path, trial(*changes))
    assert f"        print({after})\n" in made
    assert "MIGRATE" not in made


@pytest.mark.parametrize(
    ("given", "rest", "is_marked"),
    [
        ("self", "", True),
        ("policy=self.act", "", True),
        ("[self.model]", "", True),
        ("self.count", "", True),
        ("self.seed, self.act()", "", False),
        ("self.act", "    def __len__(self): return 5\n", False),
    ],
)
def test_data_that_training_changes_are_not_read_ahead_in_silence(tmp_path, given, rest, is_marked):
    (tmp_path / "data.py").write_text(f"class Stream:\n    def __iter__(self): yield\n{rest}")
    source = trial(
        ("DataLoader([], batch_size=self", f"DataLoader(data.Stream({given}), batch_size=self"),
        ("        loss = ", "        self.count = batch_idx\n        loss = "),
        (
            "    def build_training",
            "    def act(self):\n        return 1\n\n    def build_training",
        ),
    )
    assert (
        "# MIGRATE: Stream has no __len__" in rewritten(tmp_path, "import data\n" + source)
    ) == (is_marked)


@pytest.mark.parametrize(
    ("base", "rest", "made", "is_marked"),
    [
        ("Sampler", "    def set_epoch(self, epoch): ...\n", "Rows(3)", True),
        ("", "    def __iter__(self): ...\n    def set_epoch(self, epoch): ...\n", "Rows(3)", True),
        ("IterableDataset", "    def set_epoch(self, epoch): ...\n", "Rows(3)", False),
        ("Sampler", "    def __iter__(self): ...\n", "Rows(3)", False),
        ("Sampler", "", "DistributedSampler([], num_replicas=len([]), rank=0)", True),
        ("Sampler", "", "DistributedSampler([], num_replicas=1, rank=0, shuffle=False)", False),
    ],
)
def test_samplers_that_hear_of_epochs_are_marked(tmp_path, base, rest, made, is_marked):
    imports = "from torch.utils.data import *\nfrom torch.utils.data import DistributedSampler\n"
    rows = f"class Rows({base}):\n    def __len__(self): return 3\n{rest}\n\n"
    source = trial(
        ("class Trial", f"{rows}def sampler():\n    return {made}\n\n\nclass Trial"),
        ("DataLoader([], batch_size=4", "DataLoader([], sampler=sampler(), batch_size=4"),
    )
    assert ("Lightning calls set_epoch() of" in rewritten(tmp_path, imports + source)) == is_marked


@pytest.mark.parametrize(
    ("line", "is_marked"),
    [
        ("from data.rows import make", True),
        ("import code.data.rows", True),
        ("import rows", False),
        ("import torch", False),
    ],
)
def test_a_sampler_of_other_trials_is_none_of_this_one(tmp_path, line, is_marked):
    for folder, text in (("data", "from .samplers import Rows\n"), ("", "class Rows: ...\n")):
        (tmp_path / "code" / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / "code" / folder / "rows.py").write_text(text)
    rows = "class Rows(Sampler):\n    def set_epoch(self, epoch): ...\n"
    (tmp_path / "code" / "data" / "samplers.py").write_text(rows)
    source = trial(("DataLoader([], batch_size=4", "DataLoader([], sampler=make(), batch_size=4"))
    made = rewritten(tmp_path, f"{line}\n{source}", name="code/model_def.py")
    assert ("Lightning calls set_epoch() of Rows" in made) == is_marked


@pytest.mark.parametrize(
    ("loader", "is_marked"),
    [
        ("return DataLoader([], shuffle=True)", False),
        ("loader = DataLoader([], 4, True)\n        return loader", False),
        ("return DataLoader([], batch_sampler=None, **self.options)", True),
        ("return data.loader()", True),
        ("return DataLoader([], 4, False, data.sampler())", True),
    ],
)
def test_a_sampler_beside_loaders_that_have_none_is_no_matter(tmp_path, loader, is_marked):
    make = "def loader():\n    return DataLoader([], sampler=DistributedSampler([]))\n"
    (tmp_path / "data.py").write_text(
        f"from torch.utils.data import DistributedSampler\n\n\n{make}"
    )
    made = rewritten(
        tmp_path, "import data\n" + trial(("return DataLoader([], batch_size=4)", loader))
    )
    assert ("Lightning calls set_epoch() of DistributedSampler" in made) == is_marked

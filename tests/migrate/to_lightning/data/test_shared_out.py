from __future__ import annotations

import pytest
import torch

from tests.migrate.rewriting import HEADER, rewritten, trial

DETERMINED_LOADER = "DataLoader([], batch_size=self.context.get_per_slot_batch_size())"
ORDER = "# Lightning shuffles this in several processes\n"
SAMPLES = "# in several processes Lightning shuffles single samples: no batch stays whole\n"


@pytest.mark.parametrize(
    ("given", "is_said"),
    [
        ("", True),
        (", shuffle=False", True),
        (", shuffle=True", False),
        (", sampler=order", False),
        (", batch_sampler=order", False),
        (", **self.options", False),
    ],
)
def test_an_order_that_several_devices_do_not_keep_is_spoken_of(given, is_said, tmp_path):
    loader = "batch_size=self.context.get_per_slot_batch_size()"
    made = rewritten(tmp_path, trial((loader, f"{loader}{given}")))
    assert made.count(ORDER) == is_said


def test_the_order_of_a_sampler_of_the_project_is_one(tmp_path):
    header = f"{HEADER}class Grouped(torch.utils.data.Sampler):\n    pass\n\n\n"
    loader = "batch_size=self.context.get_per_slot_batch_size()"
    made = rewritten(tmp_path, trial((loader, f"{loader}, sampler=Grouped()"), header=header))
    assert made.count(SAMPLES) == 1


@pytest.mark.parametrize(
    ("loader", "is_said"),
    [
        ("torch.utils.data.DataLoader([], batch_size=4)", True),
        ("torch.utils.data.DataLoader([], shuffle=True)", True),
        ("torch.utils.data.DataLoader([], batch_size=None)", True),
        ("torch.utils.data.DataLoader([], sampler=order)", False),
        ("torch.utils.data.DataLoader([], batch_sampler=order)", False),
    ],
)
def test_loaders_that_each_process_had_for_itself_are_spoken_of(loader, is_said, tmp_path):
    disabled = "context.experimental.disable_dataset_reproducibility_checks()\n        self.opt ="
    made = rewritten(tmp_path, trial(("self.opt =", disabled), (DETERMINED_LOADER, loader)))
    said = "# several processes share this out, unless pl.Trainer(use_distributed_sampler=False)\n"
    assert made.count(said) == is_said


def test_a_loader_without_batches_goes_through_what_has_an_order_of_its_own(tmp_path):
    loader = "batch_size=self.context.get_per_slot_batch_size()"
    assert ORDER not in rewritten(tmp_path, trial((loader, "batch_size=None")))


@pytest.mark.parametrize(
    ("given", "is_said"),
    [
        ("Grouped(rows, 4)", True),
        ("groups.Grouped(rows, 4)", True),
        ("torch.utils.data.BatchSampler(rows, 4, False)", False),
        ("None", False),
    ],
)
def test_batches_that_lightning_cannot_share_out_are_spoken_of(given, is_said, tmp_path):
    old = "DataLoader([], batch_size=self.context.get_per_slot_batch_size())"
    for new in (f"DataLoader([], batch_sampler={given})", "DataLoader([], batch_sampler=made)"):
        lines = f"made = {given}\n        return {new}" if "made" in new else f"return {new}"
        made = rewritten(tmp_path, trial((f"return {old}", lines)))
        assert ("# several processes need a batch sampler" in made) == is_said


LOADER = "return DataLoader([], batch_size=self.context.get_per_slot_batch_size())"
WHOLE = "# several processes need a batch sampler that shares out"


@pytest.mark.parametrize(
    ("lines", "is_said"),
    [
        ("s = BatchSampler(rows, 4, False)\ns = shuffled(s)\n{0}s)", True),
        ("s = BatchSampler(rows, 4, False)\nif x:\n    s = Grouped(s)\n{0}s)", True),
        ("s = BatchSampler(RandomSampler(rows), 4, False)\n{0}s)", False),
        ("s = WeightedRandomSampler(rows)\ns = BatchSampler(s, 4, False)\n{0}s)", True),
        ("self.s = samplers.ReproducibleShuffleBatchSampler(rows, 1)\n{0}self.s)", True),
        ("{0}self.plain())", True),
        ("{0}self.grouped())", True),
    ],
)
@pytest.mark.parametrize("old", [LOADER, "return DataLoader([], batch_size=4)"])
def test_batches_that_are_made_in_steps_are_spoken_of(lines, is_said, old, tmp_path):
    new = lines.format("return DataLoader([], batch_sampler=").replace("\n", "\n        ")
    helpers = (
        "    def plain(self):\n        return BatchSampler(SequentialSampler(rows), 4, False)\n"
    )
    helpers += "\n    def grouped(self):\n        made = Grouped(rows)\n        return made\n\n"
    header = HEADER.replace("import DataLoader", "import samplers, DataLoader")
    changes = (old, new), ("    def evaluate_batch", f"{helpers}    def evaluate_batch")
    made = rewritten(tmp_path, trial(*changes, header=header))
    assert (WHOLE in made) is is_said
    assert rewritten(tmp_path, made) == made


GROUPED = """

class Grouped(torch.utils.data.BatchSampler):
    def __init__(self, groups, {0}, size):
        self.sampler = {0}

    def __iter__(self):
        yield [*self.sampler]


"""


@pytest.mark.parametrize(
    ("given", "name", "is_said"),
    [
        ("RandomSampler(rows)", "sampler", False),
        ("rows", "sampler", False),
        # Weights would be lost.
        ("WeightedRandomSampler(rows)", "sampler", True),
        ("RandomSampler(rows)", "order", True),
    ],
)
def test_lightning_makes_batch_samplers_of_the_project_anew(given, name, is_said, tmp_path):
    header = HEADER + GROUPED.format(name)
    lines = f"made = Grouped([], {given}, 4)\n        return DataLoader([], batch_sampler=made)"
    assert (WHOLE in rewritten(tmp_path, trial((LOADER, lines), header=header))) is is_said
    # Lightning knows what one is made with only where that is in the method for the loader.
    kept = f"self.made = Grouped([], {given}, 4)\n        self.opt ="
    lines = lines.partition("\n        ")[2].replace("=made", "=self.made")
    early = trial(("self.opt =", kept), (LOADER, lines), header=header)
    assert WHOLE in rewritten(tmp_path, early)


STREAM = """

class Rows(torch.utils.data.IterableDataset):
    pass


class Stream(Rows):
    pass


def opened():
    return Stream()
"""


@pytest.mark.parametrize(
    ("data", "is_said"),
    [
        ("Stream()", False),
        ("opened()", False),
        ("load_dataset(x, streaming=True)", False),
        ("Stream() if x else Rows()", False),
        ("Stream() if x else Listed()", True),
        ("Listed()", True),
        ("rows", True),
    ],
)
def test_lightning_shuffles_no_stream(data, is_said, tmp_path):
    size = "batch_size=self.context.get_per_slot_batch_size())"
    for new in (
        f"return DataLoader({data}, {size}",
        f"d = {data}\n        return DataLoader(d, {size}",
    ):
        made = rewritten(tmp_path, trial((LOADER, new), header=HEADER + STREAM + "\n\n"))
        assert (ORDER in made) is is_said


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        ("self.probe = DataLoader([], batch_size=2)\n        {0}", 1),
        ("made = DataLoader([], batch_size=2)\n        return made", 1),
        ("made = [DataLoader([], batch_size=2)]\n        other = made\n        return other", 1),
        ("self.made = DataLoader([], batch_size=2)\n        return self.made", 1),
        ("self.probe = DataLoader([], batch_size=2)\n        return Mine()", 0),
        ("drawn = None\n        return DataLoader([], batch_size=2, sampler=drawn)", 1),
        ("return self.loader([])\n\n    def loader(self, rows):\n        " + LOADER, 1),
    ],
)
def test_a_loader_that_lightning_never_gets_is_not_spoken_of(lines, count, tmp_path):
    made = rewritten(tmp_path, trial((LOADER, lines.format(LOADER))))
    assert made.count(ORDER) == count


PLAIN_BATCHES = """
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler


def loaded(data, n):
    # so many at a time
    batch_sampler = {0}
    workers = 0
    {1}
    return DataLoader(data, batch_sampler=batch_sampler, num_workers=workers)
"""


@pytest.mark.parametrize(
    ("given", "between", "after"),
    [
        ("BatchSampler(SequentialSampler(data), n, drop_last=False)", "", "batch_size=n"),
        (
            "torch.utils.data.BatchSampler(RandomSampler(data), n, True)",
            "",
            "batch_size=n, sampler=RandomSampler(data), drop_last=True",
        ),
        ("BatchSampler(sampler=range(7), batch_size=2, drop_last=n > 3)", "n = 1", ""),
        ("BatchSampler(range(5), 2, False)", "print(batch_sampler)", ""),
        ("BatchSampler(range(5), 2, False)", "n = 1", "batch_size=2, sampler=range(5)"),
    ],
)
def test_lightning_keeps_the_size_of_batches_in_several_processes(given, between, after, tmp_path):
    """It makes batches of one of a batch sampler of torch's own class there."""
    header = f"{HEADER}{PLAIN_BATCHES.format(given, between)}\n\n"
    source = trial((LOADER, "return loaded(rows, 4)"), header=header)
    made = rewritten(tmp_path, source)
    assert ("batch_sampler=" in made) is (not after)
    assert after in " ".join(made.replace("(\n", "(").split()).replace("( ", "(")
    before = f"import torch\nfrom torch.utils.data import DataLoader\n{PLAIN_BATCHES}"
    found = []
    for text in (made, before.format(given, between)):
        names: dict = {}
        exec(text, names)
        torch.manual_seed(1)
        found.append([batch.tolist() for batch in names["loaded"](range(10), 4)])
    assert found[0] == found[1]


OWN_SHARES = """
class Rows:
    def __init__(self, count, rank, size):
        self.rows = range(rank, count, size)

    def __iter__(self):
        return iter(self.rows)

    def __len__(self):
        return len(self.rows)


def loaded(context: PyTorchTrialContext, data):
    rows = {}
    batches = torch.utils.data.BatchSampler(rows, 2, False)
    return torch.utils.data.DataLoader(data, batch_sampler=batches)


"""
RANKS = "context.distributed.get_rank(), context.distributed.get_size()"


@pytest.mark.parametrize(
    ("rows", "after"),
    [
        (f"Rows(len(data), {RANKS})", "batch_sampler=AdaptedBatches(batches)"),
        # Lightning does what this was for.
        (f"samplers.DistributedSampler(range(len(data)), {RANKS})", "batch_size=2, sampler=rows"),
    ],
)
def test_data_that_a_helper_shares_out_are_shared_out_once(rows, after, tmp_path):
    header = HEADER.replace("import DataLoader", "import PyTorchTrialContext, samplers, DataLoader")
    source = trial(
        (LOADER, "return loaded(self.context, rows)"), header=header + OWN_SHARES.format(rows)
    )
    made = rewritten(tmp_path, source)
    assert after in made and WHOLE not in made and "MIGRATE" not in made


HELPERS = """
import torch
from determined.pytorch import DataLoader
from torch.utils import data
from other.samplers import Grouping


class Grouped(torch.utils.data.Sampler):
    pass


def loaded(rows, size, shuffle=False):
    sampler = Grouped() if shuffle else None
    return rows, DataLoader(rows, batch_size=size, sampler=sampler)


def given(rows, order=None, shuffle=False):
    return DataLoader(rows, batch_size=4, sampler=order, shuffle=shuffle)


def deeper(rows):
    return given(rows, Grouping(rows))


def torchs(rows, order=None):
    loader = data.DataLoader(rows, batch_size=4, sampler=order)
    return loader


def both(rows):
    train = DataLoader(rows, shuffle=True)
    return train, DataLoader(rows)


def counted(rows):
    return len(DataLoader(rows, batch_size=4)) * rows


class Data:
    def for_training(self, rows):
        return DataLoader(rows, batch_size=4, sampler=Grouped())
"""
EACH = "# several processes share this out, unless pl.Trainer(use_distributed_sampler=False)\n"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("return DataLoader([], batch_size=4, sampler=Grouped())", SAMPLES),
        ("rows, made = loaded([], 4, True)\nreturn made", SAMPLES),
        ("return Data().for_training([])", SAMPLES),
        ("return deeper([])", SAMPLES),
        ("return given([], order=Grouped())", SAMPLES),
        ("return given([])", ORDER),
        ("return given([], None, True)", ""),
        ("return given([], RandomSampler([]))", ""),
        ("return both([])[0]", ""),
        ("return torchs([])", EACH),
        ("return torchs([], Grouped())", EACH),
        ("return torchs([], DistributedSampler([]))", ""),
        ("size = counted([])\nreturn DataLoader([], batch_size=size, shuffle=True)", ""),
        ("return {'x': loaded([], 4)[1]}", SAMPLES),
        ("made = given([])\nreturn DataLoader(made.dataset, shuffle=True)", ""),
        ("size = len(loaded([], 4))\nreturn DataLoader([], shuffle=True)", ""),
    ],
)
@pytest.mark.parametrize("is_near", [True, False])
def test_loaders_of_helpers_are_spoken_of_where_they_are_asked_for(lines, said, is_near, tmp_path):
    """Determined shared out whole batches, and Lightning shares out samples."""
    names = "Data, Grouped, both, counted, deeper, given, loaded, torchs"
    header = f"{HEADER}from torch.utils.data import DistributedSampler, RandomSampler\n"
    header += f"{HELPERS}\n\n" if is_near else f"from helpers import {names}\n\n\n"
    if not is_near:
        (tmp_path / "helpers.py").write_text(HELPERS)
    indented = lines.replace("\n", "\n        ")
    made = rewritten(tmp_path, trial((LOADER, indented), header=header))
    for each in (ORDER, SAMPLES, EACH):
        assert made.count(each) == (each == said), made


@pytest.mark.parametrize("is_own", [False, True])
def test_what_takes_the_place_of_determineds_sampler_needs_no_flag(is_own, tmp_path):
    own = "\n\nclass DistributedBatchSampler(torch.utils.data.BatchSampler):\n    pass\n"
    name = "DistributedBatchSampler" if is_own else "samplers.DistributedBatchSampler"
    helpers = f"""\
import torch
from determined.pytorch import samplers
{own if is_own else ""}

def sharing(rows, place):
    batches = torch.utils.data.BatchSampler(rows, 2, drop_last=False)
    batches = {name}(batches, place.get_size(), place.get_rank())
    return torch.utils.data.DataLoader(rows, batch_sampler=batches)
"""
    (tmp_path / "helpers.py").write_text(helpers)
    call = "return sharing(range(9), self.context.distributed)"
    made = rewritten(tmp_path, "from helpers import sharing\n" + trial((LOADER, call)))
    assert ("# several processes need a batch sampler that shares out" in made) is is_own

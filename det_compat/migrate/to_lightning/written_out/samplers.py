"""Samplers of Determined's that torch has none for."""

import re
from collections.abc import Sequence

import libcst as cst
from libcst.helpers import ensure_type

from det_compat.migrate.to_lightning.plan import LightningFile
from det_compat.migrate.to_lightning.written_out.definitions import (
    Definition,
    renamed,
    with_definitions,
)
from det_compat.migrate.tree import syntax

_PACKAGE = "det_compat.pytorch."
#: The function that a file gets for ``get_data_loader`` of Determined's loaders.
ADAPTED_LOADER = "adapted_loader"
#: The class that it gets for training data that one iterator went through.
CONTINUED = "Continued"
#: As that one, where Determined shared them out among processes.
SHARED = "ContinuedShare"
#: The classes that it gets for a DistributedBatchSampler, once and again and again.
ADAPTED, _EPOCHS = "AdaptedBatches", "AdaptedEpochs"
#: What shares out samples, which is left to Lightning, and batches, which is not.
LEFT_TO_LIGHTNING = tuple(f"{_PACKAGE}samplers.Distributed{each}Sampler" for each in ("", "Batch"))

_SHUFFLING = """\
class {name}(torch.utils.data.Sampler):
    \"""The {items} of another sampler, shuffled: a seed tells how, each epoch in another way.\"""

    def __init__(self, {given}, seed):
        self.{given} = {given}
        self.random = np.random.RandomState(seed)

    def __iter__(self):
        {items} = list(self.{given})
        self.random.shuffle({items})
        return iter({items})

    def __len__(self):
        return len(self.{given})
"""
# The samplers of samples are building blocks of one another. Lightning wraps no sampler in one of
# its own that derives from torch's DistributedSampler.
_REPEAT = """\
class RepeatSampler(torch.utils.data.DistributedSampler):
    \"""The samples of another sampler again and again: each epoch goes on where the last ended.\"""

    def __init__(self, sampler):
        self.sampler = sampler
        self.samples = itertools.chain.from_iterable(itertools.repeat(sampler))

    def __iter__(self):
        return self.samples

    def __len__(self):
        return len(self.sampler)
"""
_SHARE = """\
class DistributedSampler(torch.utils.data.DistributedSampler):
    \"""One process's share of the samples of another sampler.\"""

    def __init__(self, sampler, num_workers, rank):
        self.sampler, self.num_workers, self.rank = sampler, num_workers, rank
        self.all_samples = self.samples = None

    def __iter__(self):
        samples = iter(self.sampler)
        if samples is not self.all_samples:
            self.all_samples = samples
            self.samples = itertools.islice(samples, self.rank, None, self.num_workers)
        return self.samples

    def __len__(self):
        return len(range(self.rank, len(self.sampler), self.num_workers))
"""
_SKIP = """\
class SkipSampler(torch.utils.data.DistributedSampler):
    \"""The samples of another sampler without the first ones.\"""

    def __init__(self, sampler, skip):
        self.sampler, self.skip = sampler, skip
        self.all_samples = self.samples = None

    def __iter__(self):
        samples = iter(self.sampler)
        if samples is not self.all_samples:
            self.all_samples = samples
            self.samples = itertools.islice(samples, self.skip, None)
        return self.samples

    def __len__(self):
        return len(self.sampler)
"""
__ADAPTED = """\
class AdaptedBatches(torch.utils.data.BatchSampler):
    \"""The batches of another sampler: again and again, some of them left out, one process's.\"""

    def __init__(self, batch_sampler, repeat=False, skip=0, num_replicas=1, rank=0, sampler=None):
        # Lightning gives its sampler where there are several processes: these batches need none
        self.batch_sampler, self.repeat, self.skip = batch_sampler, repeat, skip
        self.num_replicas, self.rank = num_replicas, rank

    def __iter__(self):
        passes = itertools.repeat(self.batch_sampler) if self.repeat else [self.batch_sampler]
        batches = itertools.chain.from_iterable(passes)
        start = self.rank + self.skip * self.num_replicas
        return itertools.islice(batches, start, None, self.num_replicas)

    def __len__(self):
        return len(range(self.rank, len(self.batch_sampler), self.num_replicas))
"""
_ADAPTED_EPOCHS = """\
class AdaptedEpochs(AdaptedBatches):
    \"""These batches, as many at a time as an epoch has: the next goes on where one has ended.\"""

    batches = None

    def __iter__(self):
        if self.batches is None or not self.repeat:
            self.batches = super().__iter__()
        return itertools.islice(self.batches, len(self))

    def __len__(self):
        # processes that train step together
        count = len(self.batch_sampler)
        return -(-count // self.num_replicas) if self.repeat else super().__len__()
"""
_ADAPTED_LOADER = """\
def adapted_loader(loader, repeat=False, skip=0, num_replicas=1, rank=0):
    \"""A loader with the batches of another: again and again, without the first, one process's.\"""
    return torch.utils.data.DataLoader(
        loader.dataset,
        batch_sampler=AdaptedBatches(loader.batch_sampler, repeat, skip, num_replicas, rank),
        num_workers=loader.num_workers,
        collate_fn=loader.collate_fn,
        pin_memory=loader.pin_memory,
        timeout=loader.timeout,
        worker_init_fn=loader.worker_init_fn,
        multiprocessing_context=loader.multiprocessing_context,
        generator=loader.generator,
        prefetch_factor=loader.prefetch_factor,
        persistent_workers=loader.persistent_workers,
    )
"""
_CONTINUED = """\
class Continued:
    \"""The batches of a loader: each epoch goes on where the one before it has ended.\"""

    def __init__(self, loader):
        self.loader = loader
        self.batches = None

    def __len__(self):
        return len(self.loader)

    def __iter__(self):
        if self.batches is None:
            self.batches = iter(self.loader)
        return self

    def __next__(self):
        try:
            return next(self.batches)
        except StopIteration:
            self.batches = iter(self.loader)
            return next(self.batches)
"""
#: The same where processes take shares of their own, which may differ by a batch.
_ALIKE = _CONTINUED.replace(
    "        self.loader = loader\n", "        self.loader = loader\n        self.length = None\n"
).replace(
    "        return len(self.loader)\n",
    """\
        if self.length is None:
            lengths = [len(self.loader)]
            if torch.distributed.is_available() and torch.distributed.is_initialized():
                # each process has as many batches as the first one
                torch.distributed.broadcast_object_list(lengths)
            self.length = lengths[0]
        return self.length
""",
)
_SHARED = """\
class ContinuedShare:
    \"""A process's batches of a loader: each epoch goes on where the one before it has ended.\"""

    def __init__(self, loader, rank, world_size, trained):
        self.loader = loader
        self.world_size = world_size
        # those that other processes take, or that were trained before
        self.left_out = rank + trained * world_size
        self.batches = None

    def __len__(self):
        return -(-len(self.loader) // self.world_size)

    def __iter__(self):
        if self.batches is None:
            self.batches = iter(self.loader)
        return self

    def __next__(self):
        for _ in range(self.left_out + 1):
            try:
                batch = next(self.batches)
            except StopIteration:
                self.batches = iter(self.loader)
                batch = next(self.batches)
        self.left_out = self.world_size - 1
        return batch
"""
_SHARES = ("num_workers", "rank")
_ARRAYS = ("import numpy as np", "import torch")
_TOOLS = ("import itertools", "import torch")
_KNOWN = {
    "ReproducibleShuffleSampler": Definition(
        _SHUFFLING.format(name="ReproducibleShuffleSampler", given="sampler", items="samples"),
        _ARRAYS,
    ),
    "ReproducibleShuffleBatchSampler": Definition(
        _SHUFFLING.format(
            name="ReproducibleShuffleBatchSampler", given="batch_sampler", items="batches"
        ),
        _ARRAYS,
    ),
    "RepeatSampler": Definition(_REPEAT, _TOOLS),
    "DistributedSampler": Definition(_SHARE, _TOOLS),
    "SkipSampler": Definition(_SKIP, _TOOLS),
    "AdaptedBatches": Definition(__ADAPTED, _TOOLS),
    "AdaptedEpochs": Definition(_ADAPTED_EPOCHS, _TOOLS, ("AdaptedBatches",)),
    CONTINUED: Definition(_CONTINUED, ()),
    SHARED: Definition(_SHARED, ()),
    ADAPTED_LOADER: Definition(_ADAPTED_LOADER, _TOOLS, ("AdaptedBatches",)),
}
_SAMPLES = (
    "ReproducibleShuffleSampler",
    "ReproducibleShuffleBatchSampler",
    "RepeatSampler",
    "DistributedSampler",
    "SkipSampler",
)
_PATHS = {f"{_PACKAGE}samplers.{name}": name for name in _SAMPLES}
_PATHS[f"{_PACKAGE}adapt_batch_sampler"] = _EPOCHS


def write_out_samplers(tree: cst.Module, file: LightningFile) -> cst.Module:
    """Define what a file uses of Determined's samplers, and loaders that are adapted by hand."""
    tree, used = renamed(tree, file, _PATHS)
    calls = (syntax.code(call.func) for call in syntax.find(tree, cst.Call))
    used |= {ADAPTED_LOADER, ADAPTED, _EPOCHS, CONTINUED, SHARED} & {*calls}
    known = _KNOWN
    if any(map(_RANKS.search, file.elsewhere.texts.values())):
        known = {**_KNOWN, CONTINUED: Definition(_ALIKE, ("import torch",))}
    return with_definitions(tree, file, sorted(used), known)


#: What gives processes shares of the data.
_RANKS = re.compile(r"\b(?:num_replicas|world_size|get_world_size|get_rank|rank)\b")


def skipping(call: cst.Call) -> cst.Call:
    """The call of what takes the place of a SkipBatchSampler of batches that are repeated."""
    batches, skip = (syntax.code(arg.value) for arg in call.args)
    made = f"{_EPOCHS}({batches}, repeat=True, skip={skip})"
    if batches.startswith(f"{_EPOCHS}("):
        made = f"{batches[:-1]}, skip={skip})"
    return ensure_type(syntax.expression(made), cst.Call)


def sharing(call: cst.Call, when: str) -> cst.Call | None:
    """The call of what takes a DistributedBatchSampler's place; None if it was not given all.

    ``when`` is the expression that says whether what it shares out was repeated without end.
    """
    given = [syntax.argument(call, at, n) for at, n in enumerate(("batch_sampler", *_SHARES))]
    texts = [syntax.code(value) for value in given if value is not None]
    if len(texts) < len(given):
        return None
    batches, size, rank = texts
    start = f"{ADAPTED}({batches}" if when == "False" else f"{_EPOCHS}({batches}, repeat={when}"
    made = syntax.expression(f"{start}, num_replicas={size}, rank={rank})")
    return ensure_type(made, cst.Call)


def repeated_when(
    function: cst.FunctionDef, shared: cst.Call, repeated: Sequence[cst.Call]
) -> str | None:
    """The expression that says whether what one call shares out, others have repeated.

    None stands for one that may be something else where it is shared out.
    """
    around = _conditions(function.body, shared)
    found = [
        [each for each in _conditions(function.body, c) if each not in around] for c in repeated
    ]
    if not all(found):
        return "True"
    if not found:
        return "False"
    texts = [" and ".join(f"({t})" for t in each) if len(each) > 1 else each[0] for each in found]
    parsed = syntax.expression(" or ".join(texts))
    is_plain = not [*syntax.find(parsed, cst.Call)]
    set_here = (each.target for each in syntax.find(function.body, cst.AssignTarget))
    is_same = syntax.names_in(parsed).isdisjoint(map(syntax.code, set_here))
    return syntax.code(parsed) if is_plain and is_same else None


def _conditions(node: cst.CSTNode, call: cst.Call) -> list[str]:
    """The conditions under which a part of some code runs, from the outside in."""
    found = list[str]()
    inner = node
    while inner is not call:
        following = next(each for each in inner.children if call in syntax.find(each, cst.Call))
        if isinstance(inner, (cst.If, cst.IfExp)) and following is not inner.test:
            text = syntax.code(inner.test)
            found.append(text if following is inner.body else f"not ({text})")
        inner = following
    return found

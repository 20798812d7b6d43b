from __future__ import annotations

import inspect
import itertools
import random
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler

from det_compat.pytorch import samplers

REPEATED = 23

# How to build each sampler from a sampler (or a batch sampler) below it.
ARGUMENTS: list[tuple[str, tuple[int, ...]]] = [
    ("RepeatSampler", ()),
    ("RepeatBatchSampler", ()),
    *(("DistributedSampler", (3, rank)) for rank in range(3)),
    ("DistributedSampler", (1, 0)),
    *(("DistributedBatchSampler", (3, rank)) for rank in range(3)),
    ("DistributedBatchSampler", (1, 0)),
    *(("SkipSampler", (skip,)) for skip in (0, 2, 99)),
    *(("SkipBatchSampler", (skip,)) for skip in (0, 2, 99)),
    ("ReproducibleShuffleSampler", (7,)),
    ("ReproducibleShuffleBatchSampler", (7,)),
]


def theirs() -> Any:
    return pytest.importorskip("determined.pytorch.samplers")


def lower(batched: bool, drop_last: bool) -> Any:
    sampler = RandomSampler(range(11))
    return BatchSampler(sampler, 2, drop_last) if batched else sampler


def observe(module: Any, name: str, args: tuple[int, ...], batched: bool, last: bool) -> Any:
    torch.manual_seed(1)
    np.random.seed(1)
    random.seed(1)
    sampler = getattr(module, name)(lower(batched, last), *args)
    passes = [list(itertools.islice(sampler, REPEATED)) for _ in range(2)]
    return passes, len(sampler), torch.get_rng_state().tolist(), np.random.rand(), random.random()


@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize(("name", "args"), ARGUMENTS)
def test_same_indices_lengths_and_random_numbers_as_determined(
    name: str, args: tuple[int, ...], batched: bool, drop_last: bool
) -> None:
    ours = observe(samplers, name, args, batched, drop_last)
    assert ours == observe(theirs(), name, args, batched, drop_last)


def public_classes(module: Any) -> dict[str, type[Any]]:
    return {
        name: cls
        for name, cls in vars(module).items()
        if inspect.isclass(cls) and issubclass(cls, torch.utils.data.Sampler)
    }


def attributes(sampler: Any) -> set[str]:
    """The names of what a sampler has of its own.

    Lightning 2.6.6 notes arguments on samplers, and goes on after a loader that raised.
    """
    return {name for name in vars(sampler) if not name.startswith("__pl_")}


def test_same_classes_signatures_and_attributes_as_determined() -> None:
    expected = public_classes(theirs())
    assert public_classes(samplers).keys() == expected.keys()
    for name, cls in expected.items():
        ours = getattr(samplers, name)
        assert list(inspect.signature(ours).parameters) == list(inspect.signature(cls).parameters)
        assert ours.__bases__ == cls.__bases__ or issubclass(ours, cls.__bases__)
        args = dict(ARGUMENTS)[name]
        assert attributes(ours(lower(True, False), *args)) == attributes(
            cls(lower(True, False), *args)
        )


@pytest.mark.parametrize(("size", "rank"), [(0, 0), (2, -1), (2, 2)])
def test_distributed_batch_sampler_refuses_impossible_ranks(size: int, rank: int) -> None:
    for module in (samplers, theirs()):
        with pytest.raises(ValueError, match="must be"):
            module.DistributedBatchSampler(lower(True, False), size, rank)


@pytest.mark.parametrize("name", ["RepeatSampler", "RepeatBatchSampler"])
def test_repeating_nothing_is_an_error(name: str) -> None:
    empty = BatchSampler(SequentialSampler(range(1)), 2, drop_last=True)
    with pytest.raises(RuntimeError, match="BatchSampler yields nothing"):
        next(iter(getattr(samplers, name)(empty)))

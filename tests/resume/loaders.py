"""The subject with training data that come in other ways."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import BatchSampler, IterableDataset, RandomSampler, Sampler

from det_compat.pytorch import DataLoader, samplers
from tests.resume.subject import BATCH, ROWS, Rows, Subject


class Own(Subject):
    """Torch's own loader, which is started again each epoch."""

    def __init__(self, context: Any) -> None:
        super().__init__(context)
        context.experimental.disable_dataset_reproducibility_checks()

    def own(self, **kwargs: Any) -> Any:
        workers = self.context.get_hparams().get("workers", 0)
        given = {"batch_size": BATCH, **kwargs}
        return torch.utils.data.DataLoader(Rows(), num_workers=workers, **given)

    def build_training_data_loader(self) -> Any:
        return self.own(shuffle=True)


class OwnGenerator(Own):
    """A generator for both seeds and order."""

    def build_training_data_loader(self) -> Any:
        return self.own(shuffle=True, generator=torch.Generator().manual_seed(3))


class Weighted(Own):
    """Samples drawn at once, with replacement."""

    def build_training_data_loader(self) -> Any:
        weights = torch.linspace(1, 2, ROWS)
        return self.own(sampler=torch.utils.data.WeightedRandomSampler(weights, ROWS))


class EachTime(Sampler[int]):
    """Draws before each sample, from all generators, and counts its passes."""

    passes = 0

    def __len__(self) -> int:
        return ROWS

    def __iter__(self) -> Iterator[int]:
        self.passes += 1
        for _ in range(ROWS):
            drawn = int(torch.randint(ROWS, ())) + np.random.randint(ROWS) + random.randrange(ROWS)
            yield (drawn + self.passes) % ROWS


class DrawsEachTime(Subject):
    """A sampler that draws while training goes on."""

    def build_training_data_loader(self) -> Any:
        workers = self.context.get_hparams().get("workers", 0)
        return DataLoader(Rows(), batch_size=BATCH, sampler=EachTime(), num_workers=workers)


class AtOnce(Sampler[int]):
    """Draws its order when it is iterated over, not at the first sample."""

    def __init__(self) -> None:
        self.rng = np.random.RandomState(4)

    def __len__(self) -> int:
        return ROWS

    def __iter__(self) -> Iterator[int]:
        order = self.rng.permutation(ROWS)
        return iter(np.roll(order, int(torch.randint(ROWS, ()))).tolist())


class DrawsAtOnce(Own):
    """The same in a loader that is started again."""

    def build_training_data_loader(self) -> Any:
        return self.own(sampler=AtOnce())


class SkipsByItself(Own):
    """The trial sees to repeating, sharding and skipping, as Determined's documentation says."""

    def build_training_data_loader(self) -> Any:
        ranks = self.context.distributed
        sampler: Any = BatchSampler(RandomSampler(Rows()), BATCH, drop_last=False)
        sampler = samplers.RepeatBatchSampler(sampler)
        sampler = samplers.DistributedBatchSampler(sampler, ranks.get_size(), ranks.get_rank())
        sampler = samplers.SkipBatchSampler(sampler, self.context.get_initial_batch())
        return self.own(batch_sampler=sampler, batch_size=1)


class Stream(IterableDataset[Any]):
    """Rows in an order that is drawn at the start."""

    def __iter__(self) -> Iterator[Any]:
        rows = Rows()
        return (rows[int(index)] for index in torch.randperm(ROWS))

    def __len__(self) -> int:
        return ROWS


class Streamed(Own):
    """An IterableDataset."""

    def build_training_data_loader(self) -> Any:
        return torch.utils.data.DataLoader(Stream(), batch_size=BATCH)


ALL = (Own, OwnGenerator, Weighted, DrawsEachTime, DrawsAtOnce, SkipsByItself, Streamed)

"""The Trainer's ``overfit_batches``: the same first batches of a trial's data, in each epoch."""

import itertools
from collections.abc import Iterator
from typing import Any

import torch.utils.data
from torch.utils.data import BatchSampler, IterableDataset, SequentialSampler

from det_compat.errors import InvalidExperimentException
from det_compat.pytorch.data import DataLoader, adapt_batch_sampler, how_to_load


class FirstBatches(BatchSampler):
    """The first ``count`` batches of ``batch_sampler``."""

    def __init__(self, batch_sampler: Any, count: int) -> None:
        self.batch_sampler = batch_sampler
        self.count = count

    def __len__(self) -> int:
        return min(self.count, len(self.batch_sampler))

    def __iter__(self) -> Iterator[Any]:
        return itertools.islice(iter(self.batch_sampler), self.count)


def in_order(method: str, data: Any, ranks: int) -> DataLoader:
    """What a trial's ``method`` returned, with its samples in the dataset's order.

    Raises:
        InvalidExperimentException: nothing says which samples make a batch.
    """
    is_ours = isinstance(data, DataLoader)
    if not is_ours and not (isinstance(data, torch.utils.data.DataLoader) and ranks == 1):
        raise _refusal(method, f"{type(data).__name__} decides by itself what each rank gets")
    if isinstance(data.dataset, IterableDataset):
        raise _refusal(method, "an IterableDataset has no first samples to go back to")
    if type(data.batch_sampler) is not BatchSampler:
        raise _refusal(method, f"{type(data.batch_sampler).__name__} is a batch sampler of its own")
    return DataLoader(
        data.dataset,
        batch_size=data.batch_sampler.batch_size,
        drop_last=data.batch_sampler.drop_last,
        sampler=SequentialSampler(data.dataset),
        **how_to_load(data),
    )


def _refusal(method: str, reason: str) -> InvalidExperimentException:
    return InvalidExperimentException(
        f"overfit_batches repeats the first batches of the data in their order, and {reason}: "
        f"return a DataLoader of samples from {method}(), or use limit_train_batches"
    )


def keep_first(data: DataLoader, part: int | float, ranks: int) -> int:
    """Have ``data`` give ``part`` of each rank's batches alone: a number, or a share of them.

    Returns:
        How many batches a rank had before.
    """
    of_rank = len(adapt_batch_sampler(data.batch_sampler, num_replicas=ranks))
    count = part if isinstance(part, int) else int(of_rank * part)
    data.batch_sampler = FirstBatches(data.batch_sampler, min(count, of_rank) * ranks)
    return of_rank

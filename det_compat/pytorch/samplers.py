"""These are parts for samplers of a trial's own loaders, as in Determined 0.38.1.

Shuffle first, then repeat, shard, and skip.
"""

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, cast

import numpy as np
import torch.utils.data

from det_compat.shared.random_state import RandomState, random_state, set_random_state


class _Above:
    """A sampler above another one, which is as long, and whose items ``_drawn`` chooses from."""

    #: The attribute that has the sampler below; the classes of Determined 0.38.1 differ in it.
    _BELOW = "_sampler"

    def __len__(self) -> int:
        return len(getattr(self, self._BELOW))

    def __iter__(self) -> Iterator[Any]:
        return self._drawn(getattr(self, self._BELOW))

    def _drawn(self, sampler: Iterable[Any]) -> Iterator[Any]:
        raise NotImplementedError


class _Repeating(_Above):
    """A sampler that passes over another one without end; its last pass can be begun again.

    A shuffling sampler draws its order when a pass begins.
    """

    #: It has the index of the pass under way, and the random state in which that began.
    last_pass: tuple[int, RandomState] | None = None
    #: It names a pass that is to begin in another random state than that of the moment.
    replay: tuple[int, RandomState] | None = None

    def _begin_pass(self, index: int) -> None:
        if self.replay is not None and self.replay[0] == index:
            set_random_state(self.replay[1])
            self.replay = None
        self.last_pass = (index, random_state())

    def _drawn(self, sampler: Iterable[Any]) -> Iterator[Any]:
        for index in itertools.count():
            self._begin_pass(index)
            empty = True
            for item in sampler:
                empty = False
                yield item
            if empty:
                raise RuntimeError(
                    f"{type(sampler).__name__} yields nothing, so it cannot be repeated: give the "
                    "loader a dataset that holds at least one batch (drop_last=True drops a batch "
                    "that is not full)"
                )


class _Skipping(_Above):
    """A sampler without its first ``skip`` items."""

    skip: int

    def _drawn(self, sampler: Iterable[Any]) -> Iterator[Any]:
        iterator = iter(sampler)
        for _ in range(self.skip):
            try:
                next(iterator)
            except StopIteration:
                return
        yield from iterator


class _Shuffling(_Above):
    """The items of a sampler, in an order drawn anew for each pass."""

    _rng: np.random.RandomState

    def _drawn(self, sampler: Iterable[Any]) -> Iterator[Any]:
        items = list(sampler)
        self._rng.shuffle(items)
        return iter(items)


class RepeatSampler(_Repeating, torch.utils.data.Sampler[Any]):
    """Endless passes over ``sampler``; the length is that of one pass.

    Iterating raises RuntimeError after a pass that yields nothing.
    """

    def __init__(self, sampler: torch.utils.data.Sampler[Any]) -> None:
        self._sampler = sampler


class RepeatBatchSampler(_Repeating, torch.utils.data.BatchSampler):
    """Endless passes over ``batch_sampler``; the length is that of one pass.

    Iterating raises RuntimeError after a pass that yields nothing.
    """

    _BELOW = "batch_sampler"

    def __init__(self, batch_sampler: torch.utils.data.BatchSampler) -> None:
        self.batch_sampler = batch_sampler


class DistributedSampler(torch.utils.data.Sampler[Any]):
    """Every ``num_workers``-th sample of ``sampler``, from sample ``rank`` on."""

    def __init__(self, sampler: torch.utils.data.Sampler[Any], num_workers: int, rank: int) -> None:
        self._sampler = sampler
        self._num_workers = num_workers
        self._rank = rank

    def __len__(self) -> int:
        return _shard_length(_length(self._sampler), self._num_workers, self._rank)

    def __iter__(self) -> Iterator[Any]:
        return _shard(self._sampler, self._num_workers, self._rank)


class DistributedBatchSampler(torch.utils.data.BatchSampler):
    """Every ``num_workers``-th batch of ``batch_sampler``, from batch ``rank`` on.

    Lengths differ by one between ranks where ``num_workers`` does not divide the number of batches.

    Raises:
        ValueError: not ``0 <= rank < num_workers``.
    """

    def __init__(
        self, batch_sampler: torch.utils.data.BatchSampler, num_workers: int, rank: int
    ) -> None:
        if num_workers < 1:
            raise ValueError(f"num_workers must be at least 1, got {num_workers}")
        if not 0 <= rank < num_workers:
            raise ValueError(
                f"rank must be at least 0 and less than num_workers={num_workers}, got {rank}"
            )
        self.batch_sampler = batch_sampler
        self.num_workers = num_workers
        self.rank = rank

    def __len__(self) -> int:
        return _shard_length(_length(self.batch_sampler), self.num_workers, self.rank)

    def __iter__(self) -> Iterator[Any]:
        return _shard(self.batch_sampler, self.num_workers, self.rank)


class SkipSampler(_Skipping, torch.utils.data.BatchSampler):
    """``sampler`` without its first ``skip`` samples; the length stays that of ``sampler``.

    Repeat before skipping, or every pass is skipped into.
    """

    def __init__(self, sampler: torch.utils.data.BatchSampler, skip: int) -> None:
        self._sampler = sampler
        self._skip = skip

    @property
    def skip(self) -> int:
        """The number of samples to leave out, under the name that SkipBatchSampler has for it."""
        return self._skip

    @skip.setter
    def skip(self, samples: int) -> None:
        self._skip = samples


class SkipBatchSampler(_Skipping, torch.utils.data.BatchSampler):
    """``batch_sampler`` without its first ``skip`` batches; the length stays as it was.

    Repeat before skipping, or every pass is skipped into.
    """

    _BELOW = "batch_sampler"

    def __init__(self, batch_sampler: torch.utils.data.BatchSampler, skip: int) -> None:
        self.batch_sampler = batch_sampler
        self.skip = skip
        self.length = _length(batch_sampler)


class ReproducibleShuffleSampler(_Shuffling, torch.utils.data.Sampler[Any]):
    """The samples of ``sampler``, in an order drawn anew for each pass from ``seed``."""

    def __init__(self, sampler: torch.utils.data.Sampler[Any], seed: int) -> None:
        self._sampler = sampler
        self._rng = np.random.RandomState(seed)


class ReproducibleShuffleBatchSampler(_Shuffling, torch.utils.data.Sampler[Any]):
    """The batches of ``batch_sampler``, in an order drawn anew for each pass from ``seed``.

    ReproducibleShuffleSampler shuffles better: here the same samples stay together.
    """

    _BELOW = "_batch_sampler"

    def __init__(self, batch_sampler: torch.utils.data.BatchSampler, seed: int) -> None:
        self._batch_sampler = batch_sampler
        self._rng = np.random.RandomState(seed)


def _length(sampler: torch.utils.data.Sampler[Any]) -> int:
    return len(cast("Any", sampler))


def _shard(sampler: torch.utils.data.Sampler[Any], size: int, rank: int) -> Iterator[Any]:
    return (item for i, item in enumerate(sampler) if size == 1 or i % size == rank)


def _shard_length(length: int, size: int, rank: int) -> int:
    return length // size + int(length % size > rank)

"""The trial's loaders, as Determined iterates over them, in the form that Lightning takes."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from typing import Any

from torch.utils.data import IterableDataset

from det_compat.pytorch._context import PyTorchTrialContext
from det_compat.pytorch._data import dataset_reproducibility_message

logger = logging.getLogger("determined.pytorch")

UNSIZED = sys.maxsize


def torch_loader(
    context: PyTorchTrialContext,
    method: str,
    data: Any,
    *,
    repeat: bool = False,
    skip: int = 0,
    every_rank: bool = True,
) -> Any:
    """The torch loader of what a trial's ``method`` returned, sharded for this rank.

    Raises:
        RuntimeError: it is no Determined DataLoader and the trial has not said that it means it.
    """
    if hasattr(data, "get_data_loader"):
        replicas, rank = (
            (context.distributed.size, context.distributed.rank) if every_rank else (1, 0)
        )
        return data.get_data_loader(repeat=repeat, skip=skip, num_replicas=replicas, rank=rank)
    if not context.experimental._data_repro_checks_disabled:
        raise RuntimeError(dataset_reproducibility_message(method, data))
    return data


def length_of(loader: Any) -> int:
    """Batches in ``loader``; UNSIZED if it does not know."""
    try:
        return len(loader)
    except TypeError:
        return UNSIZED


class BatchStream:
    """The one iterator over the training loader that lasts for the whole run."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader
        self._iterator = iter(loader)
        self._is_at_start = True

    def __next__(self) -> Any:
        try:
            batch = next(self._iterator)
        except StopIteration:
            batch = self._first_of_next_round()
        self._is_at_start = False
        return batch

    def _first_of_next_round(self) -> Any:
        if not self._is_at_start:
            logger.warning(
                "the training loader ended and is started again; wrap its sampler in "
                "determined.pytorch.samplers.RepeatBatchSampler to go on without a restart"
            )
            self._iterator = iter(self._loader)
        try:
            return next(self._iterator)
        except StopIteration:
            raise RuntimeError(
                "the training loader gave no batch: build_training_data_loader() returned an empty "
                "loader, or one that can be iterated only once"
            ) from None

    def close(self) -> None:
        """Let the loader's workers end."""
        self._iterator = iter(())


class TrainingBatches:
    """An epoch's worth of a stream: Lightning asks for a new iterator each epoch, and gets this."""

    def __init__(self, stream: BatchStream, length: int) -> None:
        self._stream = stream
        self._length = length

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._stream)


class ValidationBatches:
    """A validation loader whose iteration starts with the first batch, after Lightning's hooks."""

    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __len__(self) -> int:
        # Lightning would stop there, and an IterableDataset may have more than its length says.
        if isinstance(getattr(self._loader, "dataset", None), IterableDataset):
            return UNSIZED
        return length_of(self._loader)

    def __iter__(self) -> Iterator[Any]:
        yield from self._loader


class WholeDataset:
    """Stands for all the validation data, in the place of a batch."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[WholeDataset]:
        yield self

"""The trial's loaders, as Determined iterates over them, in the form that Lightning takes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from torch.utils.data import IterableDataset

from det_compat import core
from det_compat.adapters.data.batch_stream import asks_for_indices, parts_of
from det_compat.adapters.data.loader_workers import with_lasting_workers
from det_compat.pytorch.context.steering import Steering
from det_compat.pytorch.context.trial_context import PyTorchTrialContext
from det_compat.pytorch.data import dataset_reproducibility_message

#: Determined 0.38.1 takes an epoch to be so long where the training loader does not say.
UNSIZED = sys.maxsize

# The samplers of these modules yield as many indices as they say.
_SAMPLERS = ("torch.utils.data.", "det_compat.pytorch.")


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
        RuntimeError: it is no Determined DataLoader, and the trial has not said that it means it.
    """
    if hasattr(data, "get_data_loader"):
        ranks = context.distributed if every_rank else core.DummyDistributedContext()
        data = data.get_data_loader(
            repeat=repeat, skip=skip, num_replicas=ranks.size, rank=ranks.rank
        )
    elif not Steering(context).takes_any_loader:
        raise RuntimeError(dataset_reproducibility_message(method, data))
    return with_lasting_workers(data)


def length_of(loader: Any) -> int:
    """Batches in ``loader``; UNSIZED if it does not know, or says 0 and may have some."""
    try:
        length = len(loader)
    except (TypeError, NotImplementedError):
        return UNSIZED
    return length if length or _is_empty(loader) else UNSIZED


def _is_empty(loader: Any) -> bool:
    """Whether a loader of length 0 has no batch for certain, without a look at what it yields."""
    if not asks_for_indices(loader):
        return isinstance(loader, (list, tuple))
    sampler = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
    modules = {type(part).__module__ for part in parts_of(sampler)}
    return all(module.startswith(_SAMPLERS) for module in modules)


class ValidationBatches:
    """A validation loader whose iteration starts with the first batch, after Lightning's hooks."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def __len__(self) -> int:
        # Lightning would stop there, and an IterableDataset may have more than its length says.
        if isinstance(getattr(self.loader, "dataset", None), IterableDataset):
            return UNSIZED
        return length_of(self.loader)

    def __iter__(self) -> Iterator[Any]:
        yield from self.loader


class WholeDataset:
    """Stands for all the validation data, in the place of a batch."""

    def __init__(self, loader: Any) -> None:
        self.loader = loader

    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[WholeDataset]:
        yield self

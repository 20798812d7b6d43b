"""Loaders have their sampling controlled here; batches may have any structure."""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Union, cast

import numpy as np
import torch
import torch.utils.data

from det_compat.pytorch import samplers

logger = logging.getLogger("determined.pytorch")

_Array = np.ndarray | torch.Tensor
_Data = dict[str, _Array] | Sequence[_Array] | _Array
# It is a Union of typing in Determined 0.38.1, too.
TorchData = Union[dict[str, torch.Tensor], Sequence[torch.Tensor], torch.Tensor]  # noqa: UP007

# These arguments of a loader say how batches are loaded, and not which.
_HOW_TO_LOAD = (
    "num_workers",
    "collate_fn",
    "pin_memory",
    "timeout",
    "worker_init_fn",
    "multiprocessing_context",
    "generator",
    "prefetch_factor",
    "persistent_workers",
)
# Of the dtype kinds that NumPy has, torch has tensors for these.
_TENSOR_KINDS = "fciub"


class DataLoader:
    """The arguments of a ``torch.utils.data.DataLoader``, which ``get_data_loader`` makes.

    Arguments, defaults and errors are those of torch. Making the torch loader late lets the
    trainer repeat, shard and skip batches, as in Determined 0.38.1.

    Raises:
        ValueError: torch refuses the arguments, the dataset is an IterableDataset, or both
            ``batch_size`` and ``batch_sampler`` are None.
    """

    def __init__(
        self,
        dataset: torch.utils.data.Dataset[Any],
        batch_size: int | None = 1,
        shuffle: bool = False,
        sampler: torch.utils.data.Sampler[Any] | None = None,
        batch_sampler: torch.utils.data.BatchSampler | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Any = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
    ) -> None:
        _refuse_iterable(dataset)
        _refuse_unbatched(batch_size, batch_sampler)
        self.dataset = dataset
        self.num_workers = num_workers
        self.collate_fn = collate_fn
        self.pin_memory = pin_memory
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.generator = generator
        self.prefetch_factor = prefetch_factor
        self.persistent_workers = persistent_workers
        # torch checks the arguments and fills in the defaults, and draws no random numbers yet.
        # multiprocessing_context is checked when workers are wanted, as in Determined.
        complete = torch.utils.data.DataLoader(
            dataset,
            batch_size=batch_size,
            shuffle=shuffle,
            sampler=sampler,
            batch_sampler=batch_sampler,
            drop_last=drop_last,
            **{**how_to_load(self), "multiprocessing_context": None},
        )
        self.batch_size = complete.batch_size
        self.sampler = complete.sampler
        self.batch_sampler = cast("torch.utils.data.BatchSampler", complete.batch_sampler)
        self.collate_fn = complete.collate_fn
        self.drop_last = complete.drop_last
        self.prefetch_factor = complete.prefetch_factor

    def get_data_loader(
        self, repeat: bool = False, skip: int = 0, num_replicas: int = 1, rank: int = 0
    ) -> torch.utils.data.DataLoader[Any]:
        """A new torch loader over what ``adapt_batch_sampler`` makes of the batches."""
        return torch.utils.data.DataLoader(
            self.dataset,
            batch_sampler=adapt_batch_sampler(self.batch_sampler, repeat, skip, num_replicas, rank),
            **how_to_load(self),
        )

    def __iter__(self) -> Iterator[Any]:
        """An iterator over all batches once, unsharded."""
        return iter(self.get_data_loader())

    def __len__(self) -> int:
        """The number of batches of one pass, unsharded."""
        return len(self.batch_sampler)


def how_to_load(loader: Any) -> dict[str, Any]:
    """The arguments of a loader, torch's or ours, that do not say which samples make a batch."""
    return {name: getattr(loader, name) for name in _HOW_TO_LOAD}


def _refuse_iterable(dataset: Any) -> None:
    if isinstance(dataset, torch.utils.data.IterableDataset):
        raise ValueError(
            f"DataLoader got {type(dataset).__name__}, an IterableDataset, whose batches cannot be "
            "repeated, sharded and skipped from outside. Use a map-style Dataset, or return a "
            "torch.utils.data.DataLoader over it and call "
            "context.experimental.disable_dataset_reproducibility_checks() in the trial's "
            "__init__: shuffling, sharding by context.distributed.get_rank() and repeating are "
            "then the trial's business."
        )


def _refuse_unbatched(batch_size: Any, batch_sampler: Any) -> None:
    if batch_size is None and batch_sampler is None:
        raise ValueError(
            "DataLoader got batch_size=None without a batch_sampler, which would load samples "
            "one by one, unbatched. Give either of them, or return a torch.utils.data.DataLoader "
            "and call context.experimental.disable_dataset_reproducibility_checks() in the "
            "trial's __init__."
        )


def adapt_batch_sampler(
    batch_sampler: torch.utils.data.BatchSampler,
    repeat: bool = False,
    skip: int = 0,
    num_replicas: int = 1,
    rank: int = 0,
) -> torch.utils.data.BatchSampler:
    """``batch_sampler``, repeated, then sharded by whole batches, then without the first batches.

    ``skip`` counts batches of one rank.
    """
    if repeat:
        batch_sampler = samplers.RepeatBatchSampler(batch_sampler)
    if num_replicas > 1:
        batch_sampler = samplers.DistributedBatchSampler(batch_sampler, num_replicas, rank)
    if skip > 0:
        batch_sampler = samplers.SkipBatchSampler(batch_sampler, skip)
    return batch_sampler


def data_length(data: _Data) -> int:
    """The number of samples of a batch: the length of the array, or of the first item in it.

    Raises:
        ValueError: the dict, list or tuple is empty.
        TypeError: the batch is of another type.
    """
    if isinstance(data, (np.ndarray, torch.Tensor)):
        return len(data)
    if not isinstance(data, (dict, list, tuple)):
        raise TypeError(
            f"cannot tell the length of a batch of type {type(data).__name__}: define "
            "get_batch_length(self, batch) in the trial"
        )
    if not data:
        raise ValueError(
            f"cannot tell the length of an empty {type(data).__name__}: a batch must hold at "
            "least one array or tensor"
        )
    return len(next(iter(data.values())) if isinstance(data, dict) else data[0])


def to_device(
    data: _Data, device: torch.device, warned_types: set[type[Any]] | None = None
) -> TorchData:
    """``data`` with NumPy arrays made tensors, and everything that has ``.to`` moved to ``device``.

    Dicts, lists and tuples are rebuilt, whatever their subclass, as in Determined 0.38.1. The rest
    is returned as it is, with one warning for each type that is not in ``warned_types`` yet.
    """
    moved: TorchData = _moved(data, device, set() if warned_types is None else warned_types)
    return moved


def _moved(data: Any, device: torch.device, warned: set[type[Any]]) -> Any:
    # Every batch comes through here, so without the general walker, which notes where it is.
    if type(data) is torch.Tensor and data.device == device:
        return data  # `to` would return it, too, and takes four times as long to see it.
    if isinstance(data, torch.Tensor):
        return data.to(device)
    if isinstance(data, dict):
        return {name: _moved(value, device, warned) for name, value in data.items()}
    if isinstance(data, (list, tuple)):
        kind = tuple if isinstance(data, tuple) else list
        return kind([_moved(item, device, warned) for item in data])
    if isinstance(data, np.ndarray):
        if data.dtype.kind in _TENSOR_KINDS:
            return torch.from_numpy(data).to(device)
    elif callable(getattr(data, "to", None)):
        return data.to(device)
    if type(data) not in warned:
        warned.add(type(data))
        logger.warning(f"Was not able to move data item of type '{type(data).__name__}' to device.")
    return data


def dataset_reproducibility_message(method: str, loader: Any) -> str:
    """Why what the trial's ``method`` returned is refused, and what to do."""
    return (
        f"{method}() returned {type(loader).__name__}, which is no det_compat.pytorch.DataLoader, "
        "so its batches cannot be repeated, sharded and resumed from outside. Return "
        "pytorch.DataLoader, which takes the arguments of torch.utils.data.DataLoader; or you "
        "can disable this check by calling "
        "context.experimental.disable_dataset_reproducibility_checks() in the trial's __init__, "
        "and see to it there (pytorch.samplers has the parts)."
    )

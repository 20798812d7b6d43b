from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import IterableDataset

from det_compat import core
from det_compat.adapters.data.batch_stream import BatchStream
from det_compat.adapters.data.loaders import (
    UNSIZED,
    ValidationBatches,
    WholeDataset,
    length_of,
    torch_loader,
)
from det_compat.pytorch import DataLoader, PyTorchTrialContext


def context(rank: int = 0, size: int = 1) -> PyTorchTrialContext:
    ranks = core.DistributedContext(
        rank=rank, size=size, local_rank=rank, local_size=size, cross_rank=0, cross_size=1
    )
    return PyTorchTrialContext(
        core.TrialCore(distributed=ranks), None, None, size, 0, None, 1, 0, True, False
    )


def data(count: int = 6) -> Any:
    return DataLoader(list(range(count)), batch_size=1)


def items(loader: Any) -> list[int]:
    return [int(batch) for batch in loader]


class Unsized:
    def __iter__(self) -> Iterator[int]:
        return iter(range(3))


def test_the_loader_of_each_rank() -> None:
    shards = [items(torch_loader(context(rank, 2), "build", data())) for rank in (0, 1)]
    assert shards == [[0, 2, 4], [1, 3, 5]]


def test_all_the_data_for_the_chief_alone() -> None:
    assert items(torch_loader(context(0, 2), "build", data(), every_rank=False)) == [*range(6)]


def test_a_loader_that_repeats_and_skips() -> None:
    stream = iter(torch_loader(context(), "build", data(), repeat=True, skip=4))
    assert [int(next(stream)) for _ in range(5)] == [4, 5, 0, 1, 2]


def test_a_loader_of_the_users_own() -> None:
    given, own = torch.utils.data.DataLoader([1, 2]), context()
    with pytest.raises(RuntimeError, match=r"build_x\(\) returned DataLoader"):
        torch_loader(own, "build_x", given)
    own.experimental.disable_dataset_reproducibility_checks()
    assert torch_loader(own, "build_x", given) is given


def test_length() -> None:
    class Stream(IterableDataset[int]):
        def __iter__(self) -> Iterator[int]:
            return iter(range(3))

    assert length_of([1, 2]) == 2
    assert length_of(Unsized()) == UNSIZED
    assert length_of(torch.utils.data.DataLoader(Stream())) == UNSIZED


class SaysNothing:
    def __len__(self) -> int:
        return 0

    def __iter__(self) -> Iterator[int]:
        return iter(range(3))


class NotSaid(SaysNothing):
    def __len__(self) -> int:
        raise NotImplementedError


class Sampler(torch.utils.data.Sampler[int]):
    __len__, __iter__ = SaysNothing.__len__, SaysNothing.__iter__


def test_only_what_has_no_batch_for_certain_is_empty() -> None:
    loader: Any = torch.utils.data.DataLoader
    assert length_of([]) == length_of(loader(torch.ones(0))) == 0
    assert length_of(loader(torch.ones(3), batch_size=4, drop_last=True)) == 0
    assert length_of(torch_loader(context(), "build", data(0), repeat=True)) == 0
    assert length_of(SaysNothing()) == length_of(NotSaid()) == UNSIZED
    assert length_of(loader(torch.ones(3), sampler=Sampler())) == UNSIZED


def test_a_stream_goes_on_where_it_was() -> None:
    stream = BatchStream(torch_loader(context(), "build", data(3), repeat=True), 2)
    assert len(stream) == 2
    assert [int(next(iter(stream))) for _ in range(2)] == [0, 1]
    assert [int(next(iter(stream))) for _ in range(2)] == [2, 0]


def test_validation_batches_start_with_the_first_batch_asked_for() -> None:
    class Loader:
        started = 0

        def __len__(self) -> int:
            return 2

        def __iter__(self) -> Iterator[int]:
            self.started += 1
            return iter([1, 2])

    loader = Loader()
    batches = ValidationBatches(loader)
    iterator = iter(batches)
    assert (len(batches), loader.started) == (2, 0)
    assert list(iterator) == [1, 2]
    assert loader.started == 1


def test_the_whole_dataset_is_one_batch() -> None:
    whole = WholeDataset([1, 2, 3])
    assert len(whole) == 1
    assert [batch.loader for batch in whole] == [[1, 2, 3]]


class LongerThanItSays(IterableDataset[torch.Tensor]):
    def __len__(self) -> int:
        return 1

    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(torch.arange(3))


@pytest.mark.filterwarnings("ignore:Length of IterableDataset")
def test_a_stream_is_validated_to_its_end_whatever_its_length_says() -> None:
    loader = torch.utils.data.DataLoader(LongerThanItSays(), batch_size=None)
    assert len(loader) == 1
    batches = ValidationBatches(loader)
    assert len(batches) == UNSIZED
    assert items(batches) == [0, 1, 2]

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from det_compat.adapters.data.batch_stream import BatchStream


def test_a_stream_over_a_loader_that_ends(caplog: pytest.LogCaptureFixture) -> None:
    stream = BatchStream([1, 2], 2)
    with caplog.at_level(logging.WARNING):
        assert [next(stream) for _ in range(5)] == [1, 2, 1, 2, 1]
    assert "RepeatBatchSampler" in caplog.records[0].getMessage()


def test_an_iterator_that_is_over_after_one_round() -> None:
    stream = BatchStream(iter([1]), 1)
    assert next(stream) == 1
    with pytest.raises(RuntimeError, match="can be iterated only once"):
        next(stream)


def test_an_empty_stream() -> None:
    with pytest.raises(RuntimeError, match="the training loader gave no batch"):
        next(BatchStream([], 0))


def test_closing_a_stream_ends_the_workers() -> None:
    loader = DataLoader([1, 2, 3, 4], num_workers=1)
    stream = BatchStream(loader, 2)
    next(stream)
    [worker] = stream._iterator._workers
    stream.close()
    worker.join(10)
    assert not worker.is_alive()


class Shuffled:
    """An iterable that draws its order when it is iterated over."""

    def __iter__(self) -> Iterator[int]:
        return iter(torch.randperm(6).tolist())


@pytest.mark.parametrize("count", [0, 1, 5, 6, 8])
@pytest.mark.filterwarnings("ignore")
def test_any_iterable_is_taken_up_where_it_was(count: int) -> None:
    stream = BatchStream(Shuffled(), 2)
    for _ in range(count):
        next(stream)
    position, state = stream.position(), torch.get_rng_state()
    expected = [next(stream) for _ in range(8)]

    torch.manual_seed(55)
    before = torch.get_rng_state()
    stream = BatchStream(Shuffled(), 2, position=position)
    assert torch.equal(torch.get_rng_state(), before)
    torch.set_rng_state(state)
    assert [next(stream) for _ in range(8)] == expected


class Noisy(Dataset[Any]):
    """Draws in the worker."""

    def __len__(self) -> int:
        return 12

    def __getitem__(self, index: int) -> Any:
        return index, float(torch.rand(())), np.random.rand()


def noisy(position: dict[str, Any] | None = None) -> tuple[list[Any], dict[str, Any]]:
    stream = BatchStream(DataLoader(Noisy(), num_workers=1), 2, position=position)
    found = [next(stream) for _ in range(4)]
    return [(float(torch_), float(numpy_)) for _, torch_, numpy_ in found], stream.position()


def test_workers_that_go_on_draw_the_same_each_time_and_not_what_was_drawn() -> None:
    first, position = noisy()
    torch.manual_seed(8)
    resumed, _ = noisy(position)
    torch.manual_seed(9)
    again, _ = noisy(position)
    assert resumed == again
    assert not {value for pair in first for value in pair} & {
        value for pair in resumed for value in pair
    }

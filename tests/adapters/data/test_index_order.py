from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, Sampler

from det_compat.adapters.data.batch_stream import (
    generator_state,
    generators_of,
    set_generator_state,
    with_known_order,
)
from det_compat.pytorch.samplers import RepeatBatchSampler

DATA = list(range(10))


def loader(**kwargs: Any) -> Any:
    return DataLoader(DATA, **{"batch_size": 2, "shuffle": True, **kwargs})


def endless() -> Any:
    return RepeatBatchSampler(BatchSampler(RandomSampler(DATA), 2, drop_last=False))


def taken(iterator: Iterator[Any], order: Any, count: int) -> list[list[int]]:
    found = []
    for _ in range(count):
        found.append(next(iterator).tolist())
        order.delivered()
    return found


def test_the_users_loader_is_left_as_it_is() -> None:
    original = loader()
    sampler = original.batch_sampler
    known, order = with_known_order(original)
    assert original.batch_sampler is sampler
    assert known.batch_sampler is order
    assert len(known) == len(original)


def test_it_draws_what_the_loader_itself_would_have_drawn() -> None:
    torch.manual_seed(2)
    expected = [batch.tolist() for _ in range(2) for batch in loader()]
    state = torch.get_rng_state()
    torch.manual_seed(2)
    known, _ = with_known_order(loader())
    assert [batch.tolist() for _ in range(2) for batch in known] == expected
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("count", [1, 4, 5, 6, 13])
def test_it_is_taken_up_where_it_was(workers: int, count: int) -> None:
    known, order = with_known_order(DataLoader(DATA, batch_sampler=endless(), num_workers=workers))
    assert order is not None
    iterator = iter(known)
    taken(iterator, order, count)
    position, state = order.position(), torch.get_rng_state()
    expected = taken(iterator, order, 9)

    torch.manual_seed(77)
    known, order = with_known_order(DataLoader(DATA, batch_sampler=endless(), num_workers=workers))
    assert order is not None and position is not None
    order.take_up(position)
    iterator = iter(known)
    torch.set_rng_state(state)
    assert taken(iterator, order, 9) == expected


def test_to_go_back_leaves_the_global_generators_alone() -> None:
    known, order = with_known_order(loader())
    assert order is not None
    taken(iter(known), order, 3)
    position = order.position()
    known, order = with_known_order(loader())
    assert order is not None and position is not None
    order.take_up(position)
    iterator = iter(known)
    state = torch.get_rng_state()
    next(iterator)
    assert torch.equal(torch.get_rng_state(), state)


class Stream(IterableDataset[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(DATA)


class OwnIteration(DataLoader[int]):
    def __iter__(self) -> Any:
        return super().__iter__()


@pytest.mark.parametrize("data", [[1, 2], DataLoader(Stream()), OwnIteration(DATA)])
def test_other_loaders_have_no_order_of_indices(data: Any) -> None:
    assert with_known_order(data) == (data, None)


class Own(Sampler[int]):
    def __init__(self) -> None:
        self.numpy = np.random.RandomState(1)
        self.new = np.random.default_rng(1)
        self.python = random.Random(1)
        self.system = random.SystemRandom()


def test_generators_are_found_wherever_they_are() -> None:
    own, generator = Own(), torch.Generator()
    sampler = RepeatBatchSampler(BatchSampler(own, 2, drop_last=False))
    found = generators_of(DataLoader(DATA, batch_sampler=sampler, generator=generator))
    assert found == [generator, own.numpy, own.new, own.python]


@pytest.mark.parametrize(
    ("generator", "draw"),
    [
        (torch.Generator(), lambda g: torch.rand(3, generator=g).tolist()),
        (np.random.RandomState(1), lambda g: g.rand(3).tolist()),
        (np.random.default_rng(1), lambda g: g.random(3).tolist()),
        (random.Random(1), lambda g: [g.random(), g.random()]),
    ],
    ids=["torch", "RandomState", "Generator", "Random"],
)
def test_their_states_come_back(generator: Any, draw: Any) -> None:
    state = generator_state(generator)
    expected = draw(generator)
    set_generator_state(generator, state)
    assert draw(generator) == expected

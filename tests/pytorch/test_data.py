from __future__ import annotations

import collections
import inspect
import itertools
import logging
import multiprocessing
import random
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import BatchSampler, IterableDataset, RandomSampler, SequentialSampler

from det_compat.pytorch import data as _data
from det_compat.pytorch.data import DataLoader

DATA = torch.arange(26.0).reshape(13, 2)
ATTRIBUTES = (
    "batch_size",
    "num_workers",
    "pin_memory",
    "drop_last",
    "timeout",
    "worker_init_fn",
    "generator",
    "prefetch_factor",
    "persistent_workers",
    "multiprocessing_context",
    "collate_fn",
    "dataset",
)


def theirs() -> Any:
    return pytest.importorskip("determined.pytorch")


def stack(samples: list[Any]) -> Any:
    return torch.stack(samples) + torch.rand(())


def arguments() -> list[dict[str, Any]]:
    return [
        {},
        {"batch_size": 4},
        {"batch_size": 4, "shuffle": True},
        {"batch_size": 4, "shuffle": True, "drop_last": True},
        {"batch_size": 4, "sampler": RandomSampler(range(13))},
        {"batch_sampler": BatchSampler(RandomSampler(range(13)), 5, False)},
        {"batch_sampler": BatchSampler(SequentialSampler(range(13)), 5, True), "batch_size": 1},
        {"batch_size": 3, "shuffle": True, "generator": torch.Generator().manual_seed(3)},
        {"batch_size": 3, "shuffle": True, "collate_fn": stack},
        {"batch_size": 4, "shuffle": True, "num_workers": 2},
        {"batch_size": 4, "num_workers": 1, "prefetch_factor": 4, "persistent_workers": True},
        {"num_workers": 1, "multiprocessing_context": "fork", "timeout": 30},
        {"num_workers": 1, "multiprocessing_context": multiprocessing.get_context("fork")},
    ]


CASES = range(len(arguments()))


def seed() -> None:
    torch.manual_seed(5)
    np.random.seed(5)
    random.seed(5)


def rng() -> list[Any]:
    return [torch.get_rng_state().tolist(), np.random.rand(), random.random()]


@pytest.mark.parametrize("case", CASES)
def test_constructor_sets_the_attributes_of_determined_and_draws_nothing(case: int) -> None:
    given = arguments()[case]
    seed()
    before = rng()
    seed()
    ours = DataLoader(DATA, **given)
    assert rng() == before
    reference = theirs().DataLoader(DATA, **given)
    for name in ATTRIBUTES:
        assert getattr(ours, name) is getattr(reference, name) or (
            getattr(ours, name) == getattr(reference, name)
        )
    for name in ("sampler", "batch_sampler"):
        assert type(getattr(ours, name)) is type(getattr(reference, name))
    assert len(ours) == len(reference)


def observe(cls: Any, case: int, **adapt: Any) -> Any:
    seed()
    loader = cls(DATA, **arguments()[case])
    made = loader.get_data_loader(**adapt) if adapt else loader
    batches = [batch.tolist() for _ in range(2) for batch in itertools.islice(made, 9)]
    return batches, len(made), rng()


@pytest.mark.parametrize("case", CASES)
def test_iterating_gives_the_batches_of_determined_and_draws_as_much(case: int) -> None:
    assert observe(DataLoader, case) == observe(theirs().DataLoader, case)


@pytest.mark.parametrize(
    "adapt",
    [
        {"repeat": True},
        {"repeat": True, "skip": 3},
        {"num_replicas": 2, "rank": 1},
        {"repeat": True, "skip": 2, "num_replicas": 3, "rank": 2},
    ],
)
@pytest.mark.parametrize("case", [2, 3, 5, 9])
def test_get_data_loader_shards_as_determined(case: int, adapt: dict[str, Any]) -> None:
    assert observe(DataLoader, case, **adapt) == observe(theirs().DataLoader, case, **adapt)


def test_same_signatures_as_determined() -> None:
    for name in ("DataLoader", "adapt_batch_sampler", "data_length", "to_device"):
        ours = inspect.signature(getattr(_data, name)).parameters
        reference = inspect.signature(getattr(theirs(), name)).parameters
        assert [(p.name, p.kind, p.default) for p in ours.values()] == [
            (p.name, p.kind, p.default) for p in reference.values()
        ]
    for name in ("get_data_loader", "__iter__", "__len__"):
        assert list(inspect.signature(getattr(DataLoader, name)).parameters) == list(
            inspect.signature(getattr(theirs().DataLoader, name)).parameters
        )


@pytest.mark.parametrize(
    "given",
    [
        {"num_workers": -1},
        {"timeout": -1},
        {"prefetch_factor": 2},
        {"num_workers": 1, "prefetch_factor": -1},
        {"persistent_workers": True},
        {"sampler": SequentialSampler(DATA), "shuffle": True},
        {"batch_sampler": BatchSampler(SequentialSampler(DATA), 2, False), "batch_size": 2},
        {"batch_sampler": BatchSampler(SequentialSampler(DATA), 2, False), "batch_size": None},
        {"batch_sampler": BatchSampler(SequentialSampler(DATA), 2, False), "drop_last": True},
        {"batch_sampler": BatchSampler(SequentialSampler(DATA), 2, False), "shuffle": True},
        {"batch_size": None},
        {"batch_size": None, "sampler": SequentialSampler(DATA)},
        {"batch_size": 0},
    ],
)
def test_refuses_what_determined_refuses(given: dict[str, Any]) -> None:
    for cls in (DataLoader, theirs().DataLoader):
        with pytest.raises(ValueError):
            cls(DATA, **given)


def test_worker_settings_are_checked_when_workers_are_wanted() -> None:
    for cls in (DataLoader, theirs().DataLoader):
        loader = cls(DATA, multiprocessing_context="fork")
        with pytest.raises(ValueError, match="multiprocessing"):
            loader.get_data_loader()


class Stream(IterableDataset[int]):
    def __iter__(self) -> Any:
        return iter(range(3))


def test_an_iterable_dataset_is_refused_saying_what_to_do() -> None:
    with pytest.raises(ValueError, match=r"Stream.*disable_dataset_reproducibility_checks"):
        DataLoader(Stream())


def test_the_refusal_of_a_torch_loader_says_what_to_do() -> None:
    loader = torch.utils.data.DataLoader(DATA)
    message = _data.dataset_reproducibility_message("build_training_data_loader", loader)
    assert message.startswith("build_training_data_loader() returned DataLoader")
    assert "torch.utils.data" in message
    assert "context.experimental.disable_dataset_reproducibility_checks()" in message


BATCHES = [
    torch.zeros(3, 2),
    np.zeros((4, 2)),
    {"x": [1, 2], "y": torch.zeros(3)},
    [torch.zeros(5), torch.zeros(2)],
    ([[1, 2, 3]], 2),
    ({"a": 1, "b": 2}, 3),
    {},
    [],
    (),
    "batch",
    3,
    None,
    torch.zeros(()),
    [3],
]


@pytest.mark.parametrize("batch", BATCHES, ids=repr)
def test_data_length_as_determined(batch: Any) -> None:
    try:
        expected = theirs().data_length(batch)
    except Exception as error:
        with pytest.raises(type(error)):
            _data.data_length(batch)
    else:
        assert _data.data_length(batch) == expected


def test_data_length_of_an_unknown_type_says_what_to_do() -> None:
    with pytest.raises(TypeError, match=r"Graph.*get_batch_length"):
        _data.data_length(type("Graph", (), {})())


class Movable:
    def __init__(self, device: Any = None) -> None:
        self.device = device

    def to(self, device: Any) -> Movable:
        return Movable(device)


Pair = collections.namedtuple("Pair", "x y")


def batch_of_everything() -> dict[str, Any]:
    return {
        "tensor": torch.ones(2),
        "nested": [np.ones(2), (np.ones(3, dtype=np.int16), {"deep": np.array([True])})],
        "pair": Pair(np.ones(1), 2),
        "ordered": collections.OrderedDict(a=np.ones(1)),
        "complex": np.ones(2, dtype=np.complex64),
        "text": np.array(["a", "b"]),
        "object": np.array([None]),
        "str": "a",
        "number": 3,
    }


def describe(value: Any) -> Any:
    if isinstance(value, dict):
        return type(value), {key: describe(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value), [describe(item) for item in value]
    dtype = getattr(value, "dtype", None)
    return type(value), dtype, value.tolist() if dtype else value


def test_to_device_converts_as_determined(caplog: pytest.LogCaptureFixture) -> None:
    device = torch.device("cpu")
    ours = _data.to_device(batch_of_everything(), device)
    warned = len(caplog.records)
    reference = theirs().to_device(batch_of_everything(), device)
    assert describe(ours) == describe(reference)
    assert warned == len(caplog.records) - warned


def test_to_device_moves_everything_to_the_device() -> None:
    moved: Any = _data.to_device([torch.ones(1), np.ones(1), Movable()], torch.device("meta"))
    assert [str(item.device) for item in moved] == ["meta"] * 3


def test_to_device_shares_the_memory_of_arrays() -> None:
    array = np.zeros(2)
    tensor = _data.to_device(array, torch.device("cpu"))
    array[0] = 1
    assert tensor[0] == 1


def test_to_device_warns_once_for_each_type(caplog: pytest.LogCaptureFixture) -> None:
    warned: set[type[Any]] = set()
    for _ in range(2):
        _data.to_device(["a", "b", 1], torch.device("cpu"), warned)
    assert warned == {str, int}
    assert [record.name for record in caplog.records] == ["determined.pytorch"] * 2
    assert {record.levelno for record in caplog.records} == {logging.WARNING}

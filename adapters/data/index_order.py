"""The order in which a torch loader asks its dataset for samples, and how to take it up again."""

from __future__ import annotations

import collections
import copy
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, Sampler

from det_compat.pytorch.samplers import (
    RepeatBatchSampler,
    RepeatSampler,
    SkipBatchSampler,
    SkipSampler,
)
from det_compat.shared.random_state import (
    RandomState,
    preserved_random_state,
    random_state,
    set_random_state,
)

_Generator = (torch.Generator, np.random.RandomState, np.random.Generator, random.Random)


class IndexOrder:
    """Stands in for the batch sampler of a loader, and knows what has been asked of it.

    A position is made of the random state in which the round under way began, of how many batches
    of indices have been handed out in it, and of those that the loader has not delivered yet,
    which its workers load ahead. To go back there, the sampler is run through again.
    """

    def __init__(self, sampler: Any, generators: list[Any]) -> None:
        self._sampler = sampler
        self._generators = generators
        parts = _parts(sampler)
        self._passes = [
            part for part in parts if isinstance(part, (RepeatSampler, RepeatBatchSampler))
        ]
        self._skips = [part for part in parts if type(part) in (SkipSampler, SkipBatchSampler)]
        self._round = -1
        self._handed = 0
        self._is_at_end = False
        self._ahead: collections.deque[Any] = collections.deque()
        self._began: tuple[Any, Any] | None = None
        self._position: dict[str, Any] | None = None

    def __len__(self) -> int:
        return len(self._sampler)

    def __iter__(self) -> Iterator[Any]:
        if self._position is not None:
            return self._taken_up()
        before = self._random_state()
        # Some samplers draw their order here, others when they are asked for the first item.
        return self._new_round(iter(self._sampler), before)

    def _new_round(self, indices: Iterator[Any], before: Any) -> Iterator[Any]:
        # A loader with workers makes two iterators, and uses one.
        self._round += 1
        self._is_at_end = False
        self._handed = 0
        self._ahead.clear()
        self._began = (before, self._random_state())
        yield from self._handed_out(indices)

    def _handed_out(self, indices: Iterator[Any]) -> Iterator[Any]:
        for index in indices:
            self._handed += 1
            self._ahead.append(index)
            yield index
        self._is_at_end = True

    def delivered(self) -> None:
        """Note that the loader has delivered a batch."""
        if self._ahead:
            self._ahead.popleft()

    def position(self) -> dict[str, Any] | None:
        """Where the order is; None if nothing was asked for yet."""
        if self._began is None:
            return None
        return {
            "round": self._round,
            "began": self._began,
            "handed": self._handed,
            "is_at_end": self._is_at_end,
            "ahead": list(self._ahead),
            "passes": [part.last_pass for part in self._passes],
            "skips": [part.skip for part in self._skips],
            "generators": [generator_state(found) for found in self._generators],
        }

    def take_up(self, position: dict[str, Any], *, skips_by_itself: bool = False) -> None:
        """Begin at ``position`` when the loader next asks for an iterator.

        ``skips_by_itself`` says that the sampler leaves out what was delivered before. If it does
        so by a sampler of Determined's, that one is told to leave out what it did then.
        """
        if skips_by_itself and not self._skips:
            position = {**position, "handed": len(position["ahead"])}
        for part, skip in zip(self._skips, position["skips"], strict=False):
            part.skip = skip
        self._position = position

    def _taken_up(self) -> Iterator[Any]:
        position, self._position = self._position, None
        assert position is not None
        with preserved_random_state():
            indices = self._run_through(position)
        self._round, self._handed = position["round"], position["handed"]
        self._began = position["began"]
        self._ahead.extend(position["ahead"])
        yield from position["ahead"]
        yield from self._handed_out(indices)

    def _run_through(self, position: dict[str, Any]) -> Iterator[Any]:
        for _ in range(position["round"]):
            collections.deque(self._sampler, maxlen=0)
        before, first = position["began"]
        self._set_random_states(*before)
        indices: Iterator[Any] = iter(self._sampler)
        self._set_random_states(*first)
        for part, last in zip(self._passes, position["passes"], strict=False):
            part.replay = None if last is None else tuple(last)
        # A sampler may draw once more when it finds that it has come to its end.
        for _ in range(position["handed"] + position["is_at_end"]):
            next(indices, None)
        self._set_generator_states(position["generators"])
        return indices

    def _random_state(self) -> tuple[Any, Any]:
        return random_state(), [generator_state(found) for found in self._generators]

    def _set_random_states(self, state: RandomState, generators: list[Any]) -> None:
        set_random_state(state)
        self._set_generator_states(generators)

    def _set_generator_states(self, states: list[Any]) -> None:
        for generator, state in zip(self._generators, states, strict=False):
            set_generator_state(generator, state)


def with_known_order(loader: Any) -> tuple[Any, IndexOrder | None]:
    """``loader`` with an IndexOrder in it, and that; None if its order is not made of indices."""
    if not _asks_for_indices(loader):
        return loader, None
    name = "sampler" if loader.batch_sampler is None else "batch_sampler"
    order = IndexOrder(getattr(loader, name), generators_of(loader))
    loader = copy.copy(loader)
    # torch refuses to set it: iterators that exist would not notice. There is none of the copy.
    vars(loader)[name] = order
    return loader, order


def _asks_for_indices(loader: Any) -> bool:
    return (
        isinstance(loader, DataLoader)
        and type(loader).__iter__ is DataLoader.__iter__
        and not isinstance(loader.dataset, IterableDataset)
    )


def generators_of(loader: Any) -> list[Any]:
    """The random number generators that belong to a torch loader and its samplers."""
    if not isinstance(loader, DataLoader):
        return []
    sampler = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
    held = [value for part in _parts(sampler) for value in vars(part).values()]
    found: list[Any] = []
    for value in [loader.generator, *held]:
        if _has_state(value) and not any(value is other for other in found):
            found.append(value)
    return found


def _has_state(value: Any) -> bool:
    return isinstance(value, _Generator) and not isinstance(value, random.SystemRandom)


def _parts(sampler: Any) -> list[Any]:
    """A sampler and those that it is made of."""
    found: list[Any] = []
    waiting = [sampler]
    while waiting:
        part = waiting.pop()
        if hasattr(part, "__dict__") and not any(part is other for other in found):
            found.append(part)
            waiting.extend(value for value in vars(part).values() if isinstance(value, Sampler))
    return found


def generator_state(generator: Any) -> Any:
    """The state of a generator of torch, NumPy or Python."""
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    if isinstance(generator, random.Random):
        return generator.getstate()
    return generator.get_state()


def set_generator_state(generator: Any, state: Any) -> None:
    """Put back what ``generator_state`` returned."""
    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    elif isinstance(generator, random.Random):
        generator.setstate(state)
    else:
        generator.set_state(state)

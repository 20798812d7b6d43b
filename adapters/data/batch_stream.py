"""The stream of training batches, and the order in which its samples are asked for.

A run that goes on has to be given the batches that come next, of samples in the order drawn before.
"""

import collections
import copy
import itertools
import logging
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, Sampler

from det_compat.errors import InvalidLoaderError
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

logger = logging.getLogger("determined.pytorch")

_Generator = (torch.Generator, np.random.RandomState, np.random.Generator, random.Random)


class BatchStream:
    """The one iterator over the training loader that lasts for the whole run.

    Lightning takes it for its training data: it asks for a new iterator each epoch, and gets this.

    Args:
        loader: the loader, which is iterated over again where it ends.
        length: batches in an epoch.
        skipped: how many batches the loader was told to leave out at its start.
        position: where to begin, as ``position`` of an earlier run's stream has it.
        skips_by_itself: whether the loader leaves out by itself what was delivered before.
    """

    def __init__(
        self,
        loader: Any,
        length: int,
        skipped: int = 0,
        position: dict[str, Any] | None = None,
        *,
        skips_by_itself: bool = False,
    ) -> None:
        #: Whether the epoch has had all its batches before the run was resumed.
        self.epoch_is_over = False
        #: How many batches this object has given.
        self.handed_out = 0
        #: Whether the loader has a sampler of Determined's that begins again where it ends.
        self.repeats_by_itself = any(
            isinstance(part, (RepeatBatchSampler, RepeatSampler))
            for name in ("sampler", "batch_sampler")
            for part in parts_of(getattr(loader, name, None))
        )
        self._loader, self._order = with_known_order(loader)
        self._length = length
        self._skipped = skipped
        self._round = -1
        self._delivered = 0
        self._began: RandomState = {}
        self._iterator = (
            self._next_round() if position is None else self._begin(position, skips_by_itself)
        )

    def _next_round(self) -> Iterator[Any]:
        self._round += 1
        self._delivered = 0
        self._began = random_state()
        return iter(self._loader)

    def _begin(self, position: dict[str, Any], skips_by_itself: bool) -> Iterator[Any]:
        self._round = position["round"]
        self._delivered = position["delivered"]
        self._began = position["began"]
        with preserved_random_state():
            set_random_state(self._began)
            if self._order is not None and position["order"] is not None:
                self._order.take_up(position["order"], skips_by_itself=skips_by_itself)
                self._seed_workers()
                return iter(self._loader)
            iterator: Iterator[Any] = iter(self._loader)
            delivered = 0 if skips_by_itself else self._delivered
            collections.deque(itertools.islice(iterator, delivered), maxlen=0)
            return iterator

    def _seed_workers(self) -> None:
        # Workers that start in the middle must not draw what the first ones drew already.
        seed_of_first_workers = int(torch.empty((), dtype=torch.int64).random_().item())
        seed = (seed_of_first_workers + self._delivered) % 2**63
        torch.manual_seed(seed)
        if (generator := getattr(self._loader, "generator", None)) is not None:
            generator.manual_seed(seed)

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if self.epoch_is_over:
            raise StopIteration
        try:
            batch = next(self._iterator)
        except StopIteration:
            batch = self._first_of_next_round()
        self._delivered += 1
        self.handed_out += 1
        if self._order is not None:
            self._order.delivered()
        return batch

    def _first_of_next_round(self) -> Any:
        if self._delivered:
            logger.warning(
                "the training loader ended and is started again; wrap its sampler in "
                "determined.pytorch.samplers.RepeatBatchSampler to go on without a restart"
            )
            self._iterator = self._next_round()
        try:
            return next(self._iterator)
        except StopIteration:
            raise InvalidLoaderError(
                "the training loader gave no batch: build_training_data_loader() returned an empty "
                "loader, or one that can be iterated only once"
            ) from None

    def position(self) -> dict[str, Any]:
        """Where the stream is, for a stream of a later run that begins there."""
        return {
            "round": self._round,
            "delivered": self._delivered,
            "skipped": self._skipped,
            "began": self._began,
            "order": None if self._order is None else self._order.position(),
        }

    def close(self) -> None:
        """Let the loader's workers end."""
        self._iterator = iter(())

    def state_dict(self) -> dict[str, Any]:
        """Return nothing: Lightning asks every loader; the state of the run has the position."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Do nothing: the stream began where it has to."""


class IndexOrder:
    """Stands in for the batch sampler of a loader, and knows what has been asked of it.

    A position is made of the random state in which the round under way began, of how many batches
    of indices have been handed out in it, and of those that the loader has not delivered yet,
    which its workers load ahead. To go back there, the sampler is run through again.
    """

    def __init__(self, sampler: Any, generators: list[Any]) -> None:
        self._sampler = sampler
        self._generators = generators
        parts = parts_of(sampler)
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
    if not asks_for_indices(loader):
        return loader, None
    name = "sampler" if loader.batch_sampler is None else "batch_sampler"
    order = IndexOrder(getattr(loader, name), generators_of(loader))
    loader = copy.copy(loader)
    # torch refuses to set it: iterators that exist would not notice. There is none of the copy.
    vars(loader)[name] = order
    return loader, order


def asks_for_indices(loader: Any) -> bool:
    """Whether the batches of a loader are those that its sampler names, and no others."""
    return (
        isinstance(loader, DataLoader)
        and type(loader).__iter__ is DataLoader.__iter__
        and not isinstance(loader.dataset, IterableDataset)
    )


# The random number generators that belong to a loader, beside the global ones


def generators_of(loader: Any) -> list[Any]:
    """The random number generators that belong to a torch loader and its samplers."""
    if not isinstance(loader, DataLoader):
        return []
    sampler = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
    held = [value for part in parts_of(sampler) for value in vars(part).values()]
    found: list[Any] = []
    for value in [loader.generator, *held]:
        if _has_state(value) and not any(value is other for other in found):
            found.append(value)
    return found


def _has_state(value: Any) -> bool:
    return isinstance(value, _Generator) and not isinstance(value, random.SystemRandom)


def parts_of(sampler: Any) -> list[Any]:
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

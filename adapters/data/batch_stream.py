"""The stream of training batches."""

from __future__ import annotations

import collections
import itertools
import logging
from collections.abc import Iterator
from typing import Any

import torch

from det_compat.adapters.data.index_order import with_known_order
from det_compat.shared.random_state import (
    RandomState,
    preserved_random_state,
    random_state,
    set_random_state,
)

logger = logging.getLogger("determined.pytorch")


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
            raise RuntimeError(
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
        """Nothing: Lightning asks every loader, and the state of the run has the position."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Nothing: the stream began where it has to."""

"""What a trial can ask its context about the progress of training."""

from __future__ import annotations

import logging
from collections.abc import Callable

from det_compat.errors import InternalException

logger = logging.getLogger("determined.pytorch")


class TrialProgress:
    """The current batch and epoch, and the request to stop, as in Determined 0.38.1."""

    def __init__(self) -> None:
        self._epoch_len: int | None = None
        self._count_epoch: Callable[[], int] | None = None
        self._current_batch_idx: int | None = None
        self._stop_requested = False

    def is_epoch_start(self) -> bool:
        """Whether the current batch is the first of its epoch."""
        return self.current_train_batch() % self._epoch_length() == 0

    def is_epoch_end(self) -> bool:
        """Whether the current batch is the last of its epoch."""
        length = self._epoch_length()
        return self.current_train_batch() % length == length - 1

    def current_train_epoch(self) -> int:
        """Index of the current epoch."""
        return self.current_train_batch() // self._epoch_length()

    def current_train_batch(self) -> int:
        """Index of the current batch since the start of training.

        Raises:
            InternalException: training has not started.
        """
        if self._current_batch_idx is None:
            raise InternalException("training has not started, so there is no current batch")
        return self._current_batch_idx

    def _epoch_length(self) -> int:
        if self._epoch_len is None and self._count_epoch is not None:
            self._epoch_len = self._count_epoch()
        if self._epoch_len is None:
            raise InternalException("the training data loader is not built yet")
        return self._epoch_len

    def get_stop_requested(self) -> bool:
        """Whether the trial was asked to stop."""
        return self._stop_requested

    def set_stop_requested(self, stop_requested: bool) -> None:
        """Ask the trial to checkpoint and stop when the current period ends."""
        if not isinstance(stop_requested, bool):
            raise AssertionError(f"stop_requested must be a bool, got {stop_requested!r}")
        logger.info("stop requested: the trial stops at the end of the current period")
        self._stop_requested = stop_requested

"""When the batches of a training were reached."""

from __future__ import annotations

import os
import time

STARTED = "BENCHMARK_STARTED"


class Stopwatch:
    """Takes the time of a training between two of its batches.

    Args:
        first: the batch at which the time starts; those before it warm up.
        last: the batch at which it ends.
    """

    def __init__(self, first: int, last: int) -> None:
        self._marks: dict[int, float | None] = {first: None, last: None}
        self._batch = -1
        self.seconds_to_first_batch: float | None = None

    @property
    def batches(self) -> int:
        """How many batches have begun."""
        return self._batch + 1

    def tick(self) -> None:
        """Note that a batch begins."""
        self._batch += 1
        if self._batch == 0 and STARTED in os.environ:
            self.seconds_to_first_batch = time.time() - float(os.environ[STARTED])
        if self._batch in self._marks:
            self._marks[self._batch] = time.perf_counter()

    def batches_per_second(self) -> float:
        """Batches per second in between.

        Raises:
            RuntimeError: the training ended before.
        """
        (first, start), (last, end) = self._marks.items()
        if start is None or end is None:
            raise RuntimeError(f"the training ended after batch {self._batch}, before batch {last}")
        return (last - first) / (end - start)

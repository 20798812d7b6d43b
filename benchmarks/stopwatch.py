"""When the batches of a training were reached, and at which cost."""

from __future__ import annotations

import os
import socket
import stat
import struct
import time
from pathlib import Path
from typing import NamedTuple

STARTED = "BENCHMARK_STARTED"

# Where Linux has tcpi_bytes_acked in what TCP_INFO gives.
_BYTES_ACKED = 120


class Mark(NamedTuple):
    """A moment of a process.

    Attributes:
        wall: seconds.
        cpu: seconds of processor time so far, of all threads.
        sent: bytes that its open connections have sent so far.
        written: bytes that it has written so far.
    """

    wall: float
    cpu: float
    sent: float
    written: float


class Stopwatch:
    """Takes the time of a training between two of its batches.

    Args:
        first: the batch at which the time starts; those before it warm up.
        last: the batch at which it ends.
    """

    def __init__(self, first: int, last: int) -> None:
        self._marks: dict[int, Mark | None] = {first: None, last: None}
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
            used = time.process_time(), _bytes_sent(), _bytes_written()
            self._marks[self._batch] = Mark(time.perf_counter(), *used)

    def batches_per_second(self) -> float:
        """Batches per second in between.

        Raises:
            RuntimeError: the training ended before.
        """
        return 1 / self.per_batch().wall

    def per_batch(self) -> Mark:
        """What each batch in between took, on average.

        Raises:
            RuntimeError: the training ended before.
        """
        (first, start), (last, end) = self._marks.items()
        if start is None or end is None:
            raise RuntimeError(f"the training ended after batch {self._batch}, before batch {last}")
        count = last - first
        return Mark._make((b - a) / count for a, b in zip(start, end, strict=True))


def _bytes_written() -> int:
    """The bytes that this process has written, as far as the system counts them."""
    file = Path("/proc/self/io")
    counts = file.read_text().split() if file.exists() else ["wchar:", "0"]
    return int(counts[counts.index("wchar:") + 1])


def _bytes_sent() -> int:
    """The bytes that the TCP connections which this process has open have sent."""
    sent = 0
    for name in os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else ():
        try:
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            with socket.socket(fileno=os.dup(int(name))) as connection:
                info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
                sent += struct.unpack_from("Q", info, _BYTES_ACKED)[0]
        except (OSError, struct.error):
            # It is closed by now, or no connection.
            continue
    return sent

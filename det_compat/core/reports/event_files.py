"""TensorBoard files, where the optional package is installed."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from det_compat.shared.extras import how_to_install

_FLOAT_BITS = 1023  # the most that an integer may have to be made a float


def summary_writer(path: Path) -> Any:
    """A ``SummaryWriter`` that writes into ``path``.

    Raises:
        ImportError: the package tensorboard is not installed.
    """
    with _naming_the_package():
        from torch.utils.tensorboard import SummaryWriter
    return SummaryWriter(str(path))


@contextlib.contextmanager
def _naming_the_package() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise ImportError(
            f"TensorBoard files need the package tensorboard: {how_to_install('tensorboard')}"
        ) from error


class _ScalarWriter:
    """Writes what ``SummaryWriter.add_scalar`` does, and imports no torch: scripts may have none.

    Args:
        path: the directory.

    Raises:
        ImportError: the package tensorboard is not installed.
    """

    def __init__(self, path: Path) -> None:
        with _naming_the_package():
            from tensorboard.compat.proto.event_pb2 import Event
            from tensorboard.compat.proto.summary_pb2 import Summary
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        self._event, self._summary = Event, Summary
        self._file = EventFileWriter(str(path))

    def add_scalar(self, tag: str, value: float, step: int) -> None:
        summary = self._summary(value=[self._summary.Value(tag=tag, simple_value=value)])
        self._file.add_event(self._event(wall_time=time.time(), step=step, summary=summary))

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()


class EventFiles:
    """Metrics in a directory of TensorBoard files, which is made with the first of them.

    A validation metric that has the name of a training metric is called ``val_<name>``, as in runs
    of trials; metrics of a group of the user's own are called ``<group>/<name>``.

    Args:
        path: the directory.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writer: _ScalarWriter | None = None
        self._process = os.getpid()
        self._training_names: set[str] = set()

    def write(self, group: str, metrics: dict[str, Any], step: int) -> None:
        """Write the numbers among ``metrics``, ``step`` batches into the run.

        Raises:
            ImportError: the package tensorboard is not installed.
        """
        if self._process != os.getpid():
            # A fork lacks the thread of its parent's writer, and would wait for it for ever.
            self._writer, self._process = None, os.getpid()
        if self._writer is None:
            self._writer = _ScalarWriter(self.path)
        if group == "training":
            self._training_names.update(metrics)
        for name, value in metrics.items():
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                if isinstance(value, int) and value.bit_length() > _FLOAT_BITS:
                    continue  # No TensorBoard file can hold it.
                self._writer.add_scalar(self._tag(group, name), value, step)
        self._writer.flush()

    def _tag(self, group: str, name: str) -> str:
        if group == "validation":
            return f"val_{name}" if name in self._training_names else name
        return name if group == "training" else f"{group}/{name}"

    def close(self) -> None:
        """End the file; what is written later begins another."""
        if self._writer is not None and self._process == os.getpid():
            self._writer.close()
        self._writer = None

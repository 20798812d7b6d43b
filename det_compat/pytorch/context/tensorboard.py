"""TensorBoard files, where the optional package is installed."""

from pathlib import Path
from typing import Any

import torch

from det_compat import core
from det_compat.core.reports.event_files import summary_writer


class TrialTensorBoard:
    """The run's TensorBoard directory and who writes into it."""

    _tbd_writer: Any = None
    profiler: Any = None

    def __init__(self, train: core.TrainContext, enabled: bool) -> None:
        self._train = train
        self._enable_tensorboard_logging = enabled

    def set_enable_tensorboard_logging(self, enable_tensorboard_logging: bool) -> None:
        """Switch the logging of metrics to TensorBoard on or off."""
        if not isinstance(enable_tensorboard_logging, bool):
            raise AssertionError(
                f"enable_tensorboard_logging must be a bool, got {enable_tensorboard_logging!r}"
            )
        self._enable_tensorboard_logging = enable_tensorboard_logging

    def get_enable_tensorboard_logging(self) -> bool:
        """Whether metrics are logged to TensorBoard."""
        return self._enable_tensorboard_logging

    def get_tensorboard_path(self) -> Path:
        """The run's TensorBoard directory."""
        return self._train.get_tensorboard_path()

    def set_tensorboard_path(self, path: Path) -> None:
        """Let what is written from now on go into ``path``."""
        self.close_tensorboard_writer()
        self._train.tensorboard_path = path

    def flush_tensorboard_writer(self) -> None:
        """Write what the trial has given its writer to the file."""
        if self._tbd_writer is not None:
            self._tbd_writer.flush()

    def close_tensorboard_writer(self) -> None:
        """Write what the trial has given its writer to the file, and close it."""
        if self._tbd_writer is not None:
            self._tbd_writer.close()
            self._tbd_writer = None

    def get_tensorboard_writer(self) -> Any:
        """A ``torch.utils.tensorboard.SummaryWriter`` in the run's TensorBoard directory.

        Raises:
            ImportError: the package tensorboard is not installed.
        """
        if self._tbd_writer is None:
            self._tbd_writer = summary_writer(self.get_tensorboard_path())
        return self._tbd_writer

    def set_profiler(self, *args: Any, **kwargs: Any) -> None:
        """Profile with ``torch.profiler.profile(*args, **kwargs)``, traces going to TensorBoard."""
        handler = torch.profiler.tensorboard_trace_handler(str(self.get_tensorboard_path()))
        self.profiler = torch.profiler.profile(*args, on_trace_ready=handler, **kwargs)

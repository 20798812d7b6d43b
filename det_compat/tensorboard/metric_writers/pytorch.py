"""``TorchWriter``: a SummaryWriter in the run's TensorBoard directory."""

import warnings
from typing import Any

from det_compat import core
from det_compat.core.reports.event_files import summary_writer

__all__ = ["TorchWriter"]


class TorchWriter:
    """Writes into the TensorBoard directory of the run that is going on.

    ``writer`` is the ``torch.utils.tensorboard.SummaryWriter``. Deprecated, as in Determined
    0.38.1: use ``context.get_tensorboard_writer()``.

    Raises:
        ImportError: the package tensorboard is not installed.
    """

    def __init__(self) -> None:
        warnings.warn(
            "TorchWriter is deprecated: use context.get_tensorboard_writer() in a trial, or a "
            "SummaryWriter in the directory context.get_tensorboard_path()",
            FutureWarning,
            stacklevel=2,
        )
        self.writer: Any = summary_writer(core.current_tensorboard_path())

    def add_scalar(self, name: str, value: Any, step: int) -> None:
        """Record the number ``value`` at ``step``."""
        self.writer.add_scalar(name, value, step)

    def reset(self) -> None:
        """Close the file; the next value starts another."""
        self.writer.close()

    def flush(self) -> None:
        """Write out what was recorded so far."""
        self.writer.flush()

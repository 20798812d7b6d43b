"""The names of ``determined.pytorch.experimental`` 0.38.1: batch inference over a dataset."""

from det_compat.pytorch.experimental.batch_process import (
    TorchBatchProcessor,
    TorchBatchProcessorContext,
    get_default_device,
    torch_batch_process,
)

__all__ = [
    "TorchBatchProcessor",
    "TorchBatchProcessorContext",
    "get_default_device",
    "torch_batch_process",
]

"""The metrics of the batches since the last report."""

from __future__ import annotations

from typing import Any

import torch

from det_compat.pytorch.metrics import to_numpy


class MetricsWindow:
    """Collects what ``train_batch`` or ``evaluate_batch`` return, without waiting for a GPU.

    Tensors on the CPU become NumPy arrays of the same memory at once, as in Determined 0.38.1;
    tensors on other devices are copied there and fetched when the window is closed.
    """

    def __init__(self, source: str) -> None:
        self._source = source
        self._batches: list[dict[str, Any]] = []
        self._is_on_device = False

    def __len__(self) -> int:
        return len(self._batches)

    def append(self, metrics: Any) -> None:
        """Add the metrics of a batch.

        Raises:
            TypeError: they are no dict.
        """
        if not isinstance(metrics, dict):
            raise TypeError(
                f"{self._source}() must return a dict of metrics by name, got "
                f"{type(metrics).__name__}"
            )
        for name, value in metrics.items():
            if isinstance(value, torch.Tensor):
                metrics[name] = self._keep(value)
        self._batches.append(metrics)

    def _keep(self, value: torch.Tensor) -> Any:
        value = value.detach()
        if value.device.type == "cpu" and value.dtype != torch.bfloat16:
            return value.numpy()
        self._is_on_device = True
        return value.clone()

    def peek(self) -> list[dict[str, Any]]:
        """The metrics so far, as NumPy arrays; the window stays open."""
        if self._is_on_device:
            return [to_numpy(dict(metrics)) for metrics in self._batches]
        return self._batches

    def clear(self) -> None:
        """Forget all metrics."""
        self._batches = []
        self._is_on_device = False

    def close(self) -> list[dict[str, Any]]:
        """The metrics, as NumPy arrays; the window is empty after it."""
        batches, self._batches = self._batches, []
        if self._is_on_device:
            self._is_on_device = False
            for metrics in batches:
                to_numpy(metrics)
        return batches

"""Callbacks of Determined 0.12 that clip gradients."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from det_compat.pytorch.callback import PyTorchCallback


class ClipGradsL2Norm(PyTorchCallback):
    """Clips the L2 norm of all gradients together to ``clip_value`` before each optimizer step."""

    def __init__(self, clip_value: float) -> None:
        self._clip_value = clip_value

    def on_before_optimizer_step(self, parameters: Iterable[torch.Tensor]) -> None:
        """Clip, when gradients are synchronized between ranks."""
        torch.nn.utils.clip_grad_norm_(parameters, self._clip_value)


class ClipGradsL2Value(PyTorchCallback):
    """Clips each element of the gradients to ``clip_value`` before each optimizer step."""

    def __init__(self, clip_value: float) -> None:
        self._clip_value = clip_value

    def on_before_optimizer_step(self, parameters: Iterable[torch.Tensor]) -> None:
        """Clip, when gradients are synchronized between ranks."""
        torch.nn.utils.clip_grad_value_(parameters, self._clip_value)

"""``reset_parameters``, of Determined 0.12 and PEDL."""

from __future__ import annotations

from torch import nn


def reset_parameters(model: nn.Module) -> None:
    """Call ``reset_parameters()`` of every module of ``model`` that has it, outermost first.

    Weights that were loaded before are lost: load pretrained ones afterwards.
    """
    for module in model.modules():
        reset = getattr(module, "reset_parameters", None)
        if callable(reset):
            reset()

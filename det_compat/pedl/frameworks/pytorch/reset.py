"""Fresh weights."""

from __future__ import annotations

import logging

from torch import nn

logger = logging.getLogger("determined.pytorch")


def reset_parameters(model: nn.Module) -> None:
    """Call ``reset_parameters()`` of ``model`` and of every module in it that has the method.

    Call it before loading weights: it overwrites them.
    """
    logger.info("resetting model parameters")
    for module in model.modules():
        reset = getattr(module, "reset_parameters", None)
        if callable(reset):
            reset()

"""Clipping of gradients by hyperparameters, as PEDL and Determined 0.12 did it at first."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import torch

from det_compat.errors import InvalidExperimentException

logger = logging.getLogger("determined.pytorch")

_CLIPS: dict[str, Callable[..., Any]] = {
    "clip_grad_l2_norm": torch.nn.utils.clip_grad_norm_,
    "clip_grad_val": torch.nn.utils.clip_grad_value_,
}


def clip_by_hparams(hparams: dict[str, Any]) -> Callable[[Any], Any] | None:
    """What clips the gradients of parameters as the hyperparameters ask; None if they do not.

    ``clip_grad_l2_norm`` bounds the L2 norm of all gradients together, ``clip_grad_val`` each
    element of them.

    Raises:
        InvalidExperimentException: both are given.
    """
    asked = [name for name in _CLIPS if hparams.get(name) is not None]
    if not asked:
        return None
    if len(asked) > 1:
        raise InvalidExperimentException(
            f"the hyperparameters hold both {' and '.join(asked)}: gradients are clipped one way "
            "or the other, remove one of them"
        )
    [name] = asked
    clip, value = _CLIPS[name], hparams[name]
    logger.info(f"gradients are clipped as the hyperparameter {name}={value!r} asks")
    return lambda parameters: clip(parameters, value)

"""Who is told of the backward passes and steps of a trial."""

import dataclasses
from collections.abc import Callable

import torch


@dataclasses.dataclass(frozen=True)
class GradientHooks:
    """What is called around the backward passes and steps that a trial makes by its context.

    Attributes:
        before_backward: with the loss, scaled if it is.
        after_backward: without arguments.
        before_step: with the optimizer, whose gradients are averaged and unscaled, not clipped.
        before_zero_grad: with the optimizer.
    """

    before_backward: Callable[[torch.Tensor], None]
    after_backward: Callable[[], None]
    before_step: Callable[[torch.optim.Optimizer], None]
    before_zero_grad: Callable[[torch.optim.Optimizer], None]

"""DistributedDataParallel around one model of a trial."""

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel


class TrialDDP(DistributedDataParallel):
    """DistributedDataParallel that hands through the attributes of the model inside.

    Forward passes in eval mode without gradients copy the chief's buffers once, not each time:
    the buffers do not change in between, and ranks whose shards of the validation data differ in
    length would otherwise wait for each other forever.
    """

    _buffers_are_synced = False

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("module"), name)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if self.training or torch.is_grad_enabled():
            self._buffers_are_synced = False
        elif self._buffers_are_synced:
            return self.module(*inputs, **kwargs)
        else:
            self._buffers_are_synced = True
        # torch has no types for this method.
        return super().forward(*inputs, **kwargs)  # type: ignore[no-untyped-call]

    def forward_without_sync(self) -> None:
        """Keep eval forward passes to this rank until one with gradients or in train mode."""
        self._buffers_are_synced = True


def distribute(model: torch.nn.Module, **ddp_kwargs: Any) -> torch.nn.Module:
    """``model`` in DistributedDataParallel, or as it is if it has nothing to train."""
    if any(parameter.requires_grad for parameter in model.parameters()):
        return TrialDDP(model, **ddp_kwargs)
    return model


@contextlib.contextmanager
def no_gradient_sync(models: Iterable[torch.nn.Module]) -> Iterator[None]:
    """Keep gradients of the enclosed forward and backward passes on this rank."""
    with contextlib.ExitStack() as stack:
        for model in models:
            if isinstance(model, DistributedDataParallel):
                stack.enter_context(model.no_sync())
        yield

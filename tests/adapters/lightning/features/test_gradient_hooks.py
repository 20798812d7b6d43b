"""Callbacks of Lightning hear of a trial's backward passes and steps."""

from __future__ import annotations

from typing import Any

import pytest
import pytorch_lightning as pl
import torch

from det_compat import to_lightning
from tests.adapters.trials import Linear, same, trainer, weights


class Listens(pl.Callback):
    def __init__(self) -> None:
        self.heard: list[Any] = []

    def on_before_backward(self, used: Any, module: Any, loss: torch.Tensor) -> None:
        self.heard.append(("before backward", loss.item()))

    def on_after_backward(self, used: Any, module: Any) -> None:
        self.heard.append("after backward")

    def on_before_optimizer_step(self, used: Any, module: Any, optimizer: Any) -> None:
        (norm,) = (p.grad.norm() for p in optimizer.param_groups[0]["params"] if p.grad.ndim == 2)
        self.heard.append(("step", float(norm)))
        module.log("norm", norm)

    def on_before_zero_grad(self, used: Any, module: Any, optimizer: Any) -> None:
        self.heard.append("zero")


class Overrides(to_lightning(Linear)):
    backwards = 0

    def on_after_backward(self) -> None:
        self.backwards += 1


def fitted(module_cls: Any, **flags: Any) -> Any:
    torch.manual_seed(3)
    module = module_cls({"global_batch_size": 4, "lr": 0.1})
    used = trainer(max_epochs=1, **flags)
    used.fit(module)
    return module, used


@pytest.mark.parametrize("frequency", [1, 2])
def test_they_are_called_where_a_trial_uses_its_context(frequency: int) -> None:
    listens = Listens()
    flags = {"accumulate_grad_batches": frequency, "gradient_clip_val": 1e-3}
    module, used = fitted(Overrides, callbacks=[listens], **flags)
    names = [one if isinstance(one, str) else one[0] for one in listens.heard]
    backward = ["before backward", "after backward"]
    rounds = len(module.trial.trained) // frequency
    assert rounds > 1
    assert names[: rounds * (2 * frequency + 2)] == [*backward * frequency, "step", "zero"] * rounds
    assert module.backwards == len(module.trial.trained)
    # They are those before they are clipped.
    logged = used.callback_metrics["norm"].item()
    assert logged == [heard[1] for heard in listens.heard if heard[0] == "step"][-1] > 1e-3
    assert same(weights(module), weights(fitted(to_lightning(Linear), **flags)[0]))
    assert module.context._gradient_hooks is None


def test_nobody_is_called_where_nobody_listens() -> None:
    class Looks(pl.Callback):
        def on_train_start(self, used: Any, module: Any) -> None:
            self.hooks = module.context._gradient_hooks

    looks = Looks()
    fitted(to_lightning(Linear), callbacks=[looks])
    assert looks.hooks is None

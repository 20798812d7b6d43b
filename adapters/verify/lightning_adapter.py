"""What Determined before 0.23.4 did with a LightningModule, so that ``verify`` has an original.

det_compat runs no ``LightningAdapter``: its users have the module already. To compare what one
becomes with what it was, it is done here as it was then, with a module that Lightning 2 can make.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.optim import Optimizer

from det_compat.pytorch import LRScheduler, PyTorchCallback, PyTorchTrial, PyTorchTrialContext

#: What trials import.
MODULE = "determined.pytorch.lightning"


class LightningAdapter(PyTorchTrial):
    """A trial that trains a LightningModule, calling the few methods of it that it knew."""

    #: Which generation a trial is of is told from code that is not det_compat's: this counts, too.
    __module__ = "lightning_adapter"

    def __init__(self, context: PyTorchTrialContext, lightning_module: Any) -> None:
        self._context, self._module = context, lightning_module
        context.wrap_model(lightning_module)
        optimizers, schedulers = _configured(lightning_module.configure_optimizers())
        self._optimizers = [context.wrap_optimizer(each) for each in optimizers]
        modes = LRScheduler.StepMode
        for each in schedulers:
            is_epoch = each.get("interval", "epoch") == "epoch"
            mode = modes.STEP_EVERY_EPOCH if is_epoch else modes.STEP_EVERY_BATCH
            context.wrap_lr_scheduler(each["scheduler"], mode, frequency=each.get("frequency", 1))
        # Metrics are what steps return: what a module logs by itself was not reported.
        lightning_module.log = lightning_module.log_dict = lambda *_, **__: None

    def build_callbacks(self) -> dict[str, PyTorchCallback]:
        """The hooks of the module that were called."""
        return {"module": _Hooks(self._module)}

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        """The training_step of the module, once for each optimizer."""
        is_one, metrics = len(self._optimizers) == 1, []
        for index, optimizer in enumerate(self._optimizers):
            frozen = [*_frozen(self._optimizers, optimizer)]
            more = () if is_one else (index,)
            found = _metrics(self._module.training_step(batch, batch_idx, *more))
            self._context.backward(found["loss"])
            self._module.on_after_backward()
            self._context.step_optimizer(optimizer, auto_zero_grads=False)
            optimizer.zero_grad()
            metrics.append(found)
            for parameter in frozen:
                parameter.requires_grad = True
        if is_one:
            return metrics[0]
        named = [name for found in metrics for name in found]
        return {
            name if named.count(name) == 1 else f"opt{index}_{name}": value
            for index, found in enumerate(metrics)
            for name, value in found.items()
        }

    def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        """The validation_step of the module."""
        return _metrics(self._module.validation_step(batch, batch_idx=batch_idx))


class _Hooks(PyTorchCallback):
    def __init__(self, module: Any) -> None:
        self._module = module

    def on_training_epoch_start(self, epoch_idx: int) -> None:
        self._module.on_train_epoch_start()

    def on_validation_epoch_start(self) -> None:
        self._module.on_validation_epoch_start()

    def on_validation_epoch_end(self, outputs: list[Any]) -> None:
        self._module.on_validation_epoch_end()


def _metrics(found: Any) -> dict[str, Any]:
    return found if isinstance(found, dict) else {"loss": found}


def _frozen(optimizers: Sequence[Optimizer], own: Optimizer) -> Iterator[torch.nn.Parameter]:
    """Freezes what other optimizers train and this one does not, and gives it back."""
    trained = {id(parameter) for parameter in _parameters(own)}
    for parameter in (each for other in optimizers for each in _parameters(other)):
        if id(parameter) not in trained and parameter.requires_grad:
            parameter.requires_grad = False
            yield parameter


def _parameters(optimizer: Optimizer) -> Iterator[torch.nn.Parameter]:
    return (parameter for group in optimizer.param_groups for parameter in group["params"])


def _configured(made: Any) -> tuple[list[Optimizer], list[dict[str, Any]]]:
    """The optimizers and schedulers in what ``configure_optimizers`` has returned."""
    if isinstance(made, Optimizer):
        return [made], []
    if isinstance(made, dict):
        found = made.get("lr_scheduler")
        return [made["optimizer"]], [] if found is None else [_scheduler(found)]
    if len(made) == 2 and isinstance(made[0], (list, tuple)):
        optimizers, schedulers = made
        listed = schedulers if isinstance(schedulers, (list, tuple)) else [schedulers]
        return [*optimizers], [*map(_scheduler, listed)]
    pairs = [*map(_configured, made)]
    return [o for pair in pairs for o in pair[0]], [s for pair in pairs for s in pair[1]]


def _scheduler(made: Any) -> dict[str, Any]:
    return made if isinstance(made, dict) else {"scheduler": made}

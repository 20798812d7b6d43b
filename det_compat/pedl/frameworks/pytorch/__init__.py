"""``pedl.frameworks.pytorch``: PEDL's own trials and schedulers, and what Determined has, too."""

import logging
from typing import Any

from torch import nn

from det_compat import pytorch
from det_compat.pytorch import PyTorchCallback, Reducer

__all__ = ["LRScheduler", "PyTorchTrial", "Reducer", "reset_parameters"]

logger = logging.getLogger("determined.pytorch")


class PyTorchTrial:
    """A trial of PEDL, which gets no context, in either of two forms.

    The Standard Model Definition: ``build_model(hparams)``, ``losses(predictions, labels)``,
    ``optimizer(model)``, ``validation_metrics(predictions, labels, losses)`` and, if wanted,
    ``batch_size()``, ``training_metrics(predictions, labels, losses)`` and
    ``create_lr_scheduler(optimizer)``.

    The later form: ``build_model()``, ``optimizer(model)``,
    ``train_batch(batch, model, epoch_idx, batch_idx)``, ``evaluate_batch(batch, model)`` or
    ``evaluate_full_dataset(data_loader, model)`` and, if wanted,
    ``create_lr_scheduler(optimizer)``.

    Data come from ``make_data_loaders(experiment_config, hparams)`` in either.
    """

    def __init__(self, hparams: dict[str, Any] | None = None) -> None:
        """Do nothing: ``pedl.get_hyperparameter`` tells the hyperparameters anywhere."""

    def create_lr_scheduler(self, optimizer: Any) -> Any:
        """An ``LRScheduler`` around a scheduler of ``optimizer``, or None."""
        return None

    def build_callbacks(self) -> dict[str, PyTorchCallback]:
        """Callbacks by a name."""
        return {}

    def evaluation_reducer(self) -> Reducer | dict[str, Reducer]:
        """How metrics of ``evaluate_batch`` are reduced: one reducer for all, or one a metric."""
        return Reducer.AVG


class LRScheduler(pytorch.LRScheduler):
    """A scheduler that is stepped after every batch, after every epoch, or by the trial itself.

    Raises:
        ValueError: both are asked for.
    """

    def __init__(
        self, scheduler: Any, step_every_batch: bool = False, step_every_epoch: bool = False
    ) -> None:
        modes = pytorch.LRScheduler.StepMode
        if step_every_batch and step_every_epoch:
            raise ValueError(
                "pedl's LRScheduler steps every batch or every epoch, got step_every_batch=True "
                "and step_every_epoch=True; neither means that the trial steps it"
            )
        mode = modes.STEP_EVERY_BATCH if step_every_batch else modes.MANUAL_STEP
        super().__init__(scheduler, modes.STEP_EVERY_EPOCH if step_every_epoch else mode)


def reset_parameters(model: nn.Module) -> None:
    """Call ``reset_parameters()`` of ``model`` and of every module in it that has the method.

    Call it before loading weights: it overwrites them.
    """
    logger.info("resetting model parameters")
    pytorch.reset_parameters(model)

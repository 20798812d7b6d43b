"""The base class of PEDL's trials."""

from __future__ import annotations

from typing import Any

from det_compat.pytorch import PyTorchCallback, Reducer


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
        """Nothing: ``pedl.get_hyperparameter`` tells the hyperparameters anywhere."""

    def create_lr_scheduler(self, optimizer: Any) -> Any:
        """An ``LRScheduler`` around a scheduler of ``optimizer``, or None."""
        return None

    def build_callbacks(self) -> dict[str, PyTorchCallback]:
        """Callbacks by a name."""
        return {}

    def evaluation_reducer(self) -> Reducer | dict[str, Reducer]:
        """How metrics of ``evaluate_batch`` are reduced: one reducer for all, or one a metric."""
        return Reducer.AVG

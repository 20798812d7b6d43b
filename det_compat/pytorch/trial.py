"""The base class of trials."""

import abc
from typing import Any

import torch

from det_compat.pytorch.callback import PyTorchCallback
from det_compat.pytorch.context.trial_context import PyTorchTrialContext
from det_compat.pytorch.data import DataLoader, TorchData, data_length
from det_compat.pytorch.reducer import Reducer


class PyTorchTrial(metaclass=abc.ABCMeta):
    """A model, its data and its training step, as in Determined 0.38.1.

    Subclasses define ``__init__``, ``train_batch``, both loaders, and either ``evaluate_batch`` or
    ``evaluate_full_dataset``. They need not call ``super().__init__``.
    """

    trial_context_class = PyTorchTrialContext

    @abc.abstractmethod
    def __init__(self, context: PyTorchTrialContext) -> None:
        """Build models, optimizers and schedulers, and wrap each with the context."""

    @abc.abstractmethod
    def train_batch(
        self, batch: TorchData, epoch_idx: int, batch_idx: int
    ) -> torch.Tensor | dict[str, Any]:
        """Train on one batch: forward, ``context.backward``, ``context.step_optimizer``.

        Args:
            batch: what the training loader gave, on the device.
            epoch_idx: index of the epoch since the start of training.
            batch_idx: index of the batch since the start of training, on this rank.

        Returns:
            Training metrics by name; a tensor alone is the metric "loss".
        """

    @abc.abstractmethod
    def build_training_data_loader(self) -> DataLoader | torch.utils.data.DataLoader[Any]:
        """The training data."""

    @abc.abstractmethod
    def build_validation_data_loader(self) -> DataLoader | torch.utils.data.DataLoader[Any]:
        """The validation data."""

    def build_callbacks(self) -> dict[str, PyTorchCallback]:
        """The callbacks by a name, under which their state is kept in checkpoints."""
        return {}

    def evaluate_batch(self, batch: TorchData, batch_idx: int) -> dict[str, Any]:
        """The validation metrics of one batch, by name; it need not take ``batch_idx``."""
        raise NotImplementedError("define evaluate_batch() or evaluate_full_dataset()")

    def evaluation_reducer(self) -> Reducer | dict[str, Reducer]:
        """The reducer of the metrics of ``evaluate_batch``: one for all, or one a metric."""
        return Reducer.AVG

    def evaluate_full_dataset(
        self, data_loader: torch.utils.data.DataLoader[Any]
    ) -> dict[str, Any]:
        """The validation metrics of all the data, which the chief computes alone."""
        raise NotImplementedError("define evaluate_batch() or evaluate_full_dataset()")

    def get_batch_length(self, batch: Any) -> int:
        """The number of records in a batch; override it for batches of a type of your own."""
        return data_length(batch)

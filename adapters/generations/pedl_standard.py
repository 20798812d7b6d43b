"""Trials of PEDL's Standard Model Definition, brought into the context API.

The trial says what the losses and metrics of predictions are; here is the batch around them.
"""

from typing import Any

import numpy as np
import torch

from det_compat.adapters.generations.adapted import LoaderFunctions, with_hparams
from det_compat.adapters.generations.pedl_run import PedlRun
from det_compat.adapters.generations.trial_class import defines, full_name
from det_compat.errors import InvalidExperimentException
from det_compat.pytorch.callback import PyTorchCallback

_CONTRACT = "PEDL's Standard Model Definition"


class PedlStandard(PedlRun):
    """A trial of the Standard Model Definition, and the batch around its losses and metrics."""

    @classmethod
    def of_class(cls, trial_cls: type, loader_functions: LoaderFunctions) -> type:
        """Make a class of the context API as for other trials, after a check.

        Raises:
            TypeError: ``trial_cls`` has no ``validation_metrics``.
        """
        if not defines(trial_cls, "validation_metrics"):
            raise TypeError(
                f"{full_name(trial_cls)} does not define validation_metrics(predictions, labels, "
                f"losses), which {_CONTRACT} asks for"
            )
        return super().of_class(trial_cls, loader_functions)

    def set_up(self) -> None:
        super().set_up()
        self.evaluate_batch = self._evaluate_batch
        self._check_batch_size()

    def _check_batch_size(self) -> None:
        if not defines(self.trial_cls, "batch_size"):
            return
        size = with_hparams(self.inner.batch_size, self.hparams)
        if not isinstance(size, int) or size < 1:
            raise InvalidExperimentException(
                f"{full_name(self.trial_cls)}.batch_size() must return a positive int, as "
                f"{_CONTRACT} has it; got {size!r}"
            )

    def training_metrics_of(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
        labels, predictions = self._forward(batch)
        losses = self._losses(predictions, labels)
        metrics = self._metrics("training_metrics", predictions, labels, losses)
        # Where a metric has the name of a loss, the loss is reported: it is what is trained on.
        return {**metrics, **(losses if isinstance(losses, dict) else {"loss": losses})}

    def _evaluate_batch(self, batch: Any) -> dict[str, Any]:
        labels, predictions = self._forward(batch)
        losses = self._losses(predictions, labels)
        return self._metrics("validation_metrics", predictions, labels, losses)

    def _forward(self, batch: Any) -> tuple[Any, Any]:
        inputs, labels = _pair(batch)
        return labels, self.model(inputs)

    def build_callbacks(self) -> Any:
        callbacks = super().build_callbacks()
        own = {"det_compat.pedl_metrics": MetricsOfAnyShape()}
        return {**callbacks, **own} if isinstance(callbacks, dict) else callbacks

    def _losses(self, predictions: Any, labels: Any) -> Any:
        losses = self.inner.losses(predictions, labels)
        if isinstance(losses, dict) and "loss" not in losses:
            raise InvalidExperimentException(
                f'{self._losses_name} returned a dict without "loss", but '
                f'{sorted(map(str, losses))}: {_CONTRACT} trains on the scalar under the key "loss"'
            )
        loss = losses["loss"] if isinstance(losses, dict) else losses
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            found = f"shape {list(loss.shape)}" if isinstance(loss, torch.Tensor) else repr(loss)
            raise InvalidExperimentException(
                f"the loss that {self._losses_name} returned is {found}: {_CONTRACT} wants a "
                'scalar tensor, or a dict with one under the key "loss"'
            )
        return losses

    @property
    def _losses_name(self) -> str:
        return f"{full_name(self.trial_cls)}.losses(predictions, labels)"

    def _metrics(self, name: str, *arguments: Any) -> dict[str, Any]:
        if not defines(self.trial_cls, name):
            return {}
        metrics = getattr(self.inner, name)(*arguments)
        if not isinstance(metrics, dict):
            raise InvalidExperimentException(
                f"{full_name(self.trial_cls)}.{name}(predictions, labels, losses) must return a "
                f"dict of metrics by name, as {_CONTRACT} has it; got {type(metrics).__name__}"
            )
        return metrics


def _pair(batch: Any) -> tuple[Any, Any]:
    if isinstance(batch, (tuple, list)) and len(batch) == 2:
        return batch[0], batch[1]
    size = f" of {len(batch)}" if isinstance(batch, (tuple, list, dict)) else ""
    raise InvalidExperimentException(
        f"{_CONTRACT} takes batches that are pairs (input, target), each of any nesting; the "
        f"loader of make_data_loaders() gave {type(batch).__name__}{size}"
    )


class MetricsOfAnyShape(PyTorchCallback):
    """Averages a metric within each batch where its shape changes from batch to batch.

    A metric of every row, for example, has another shape where the last batch is smaller.
    """

    def on_validation_epoch_end(self, outputs: list[Any]) -> None:
        for name in outputs[0] if outputs else ():
            if len({np.shape(batch[name]) for batch in outputs}) > 1:
                for batch in outputs:
                    batch[name] = np.mean(batch[name])

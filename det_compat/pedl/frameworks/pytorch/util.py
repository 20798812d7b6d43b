"""``pedl.frameworks.pytorch.util``."""

import torch

__all__ = ["error_rate"]


def error_rate(predictions: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The share of rows in ``predictions`` [N, C] whose largest column is not that in ``labels``.

    ``labels`` [N] are column indices. Returns a scalar tensor on their device.

    Raises:
        ValueError: the shapes do not fit.
    """
    if predictions.dim() != 2 or labels.shape != predictions.shape[:1]:
        raise ValueError(
            f"error_rate() takes predictions of shape [N, C] and labels of shape [N], got "
            f"{list(predictions.shape)} and {list(labels.shape)}"
        )
    return (predictions.argmax(1) != labels).float().mean()

"""Loading what Determined keeps in ``state_dict.pth`` into models."""

from __future__ import annotations

from typing import Any

from torch import nn

from det_compat.checkpoint.weights import under_names


def load_weights(models: list[nn.Module], checkpoint: dict[str, Any]) -> None:
    """Load each model's weights, whether they were saved from a distributed model or not.

    ``checkpoint`` has ``models_state_dict``, one state dict a model, or ``model_state_dict``.
    """
    states = checkpoint.get("models_state_dict") or [checkpoint["model_state_dict"]]
    if len(states) != len(models):
        raise ValueError(f"the checkpoint has {len(states)} models, the trial has {len(models)}")
    for model, state in zip(models, states, strict=True):
        model.load_state_dict(under_names(model.state_dict().keys(), state))

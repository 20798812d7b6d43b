"""``state_dict.pth``, the file that Determined keeps a trial's state in."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn


def load_state_dict_file(path: Path, **torch_load_kwargs: Any) -> dict[str, Any]:
    """The content of ``state_dict.pth``, without running code from it.

    NumPy arrays, which the random state of Determined's checkpoints is made of, are allowed.
    """
    torch_load_kwargs.setdefault("map_location", "cpu")
    torch_load_kwargs.setdefault("weights_only", True)
    with _safe_globals(_numpy_globals()):
        checkpoint: dict[str, Any] = torch.load(path, **torch_load_kwargs)
    return checkpoint


def load_weights(models: list[nn.Module], checkpoint: dict[str, Any]) -> None:
    """Load each model's weights, whether they were saved from a distributed model or not.

    ``checkpoint`` has ``models_state_dict``, one state dict a model, or ``model_state_dict``.
    """
    states = checkpoint.get("models_state_dict") or [checkpoint["model_state_dict"]]
    if len(states) != len(models):
        raise ValueError(f"the checkpoint has {len(states)} models, the trial has {len(models)}")
    for model, state in zip(models, states, strict=True):
        model.load_state_dict(_as_saved_by(model, state))


def _as_saved_by(model: nn.Module, state: dict[str, Any]) -> dict[str, Any]:
    prefix = "module."
    distributed = {prefix + key: value for key, value in state.items()}
    alone = {key.removeprefix(prefix): value for key, value in state.items()}
    wanted = model.state_dict().keys()
    for candidate in (state, distributed, alone):
        if candidate.keys() == wanted:
            return candidate
    return state


@contextlib.contextmanager
def _safe_globals(allowed: list[Any]) -> Iterator[None]:
    serialization = torch.serialization
    if hasattr(serialization, "safe_globals"):  # torch 2.5 and later
        with serialization.safe_globals(allowed):
            yield
        return
    before = serialization.get_safe_globals()
    serialization.add_safe_globals([item for item in allowed if not isinstance(item, tuple)])
    try:
        yield
    finally:
        serialization.clear_safe_globals()
        serialization.add_safe_globals(before)


def _numpy_globals() -> list[Any]:
    reconstruct, scalar = np.zeros(0).__reduce__()[0], np.float64(0).__reduce__()[0]
    # All but "O", whose items are pickles of anything.
    dtypes = {type(np.dtype(code)) for code in np.typecodes["All"] if code != "O"}
    return [
        # NumPy 1 had them in another module.
        (reconstruct, "numpy.core.multiarray._reconstruct"),
        (scalar, "numpy.core.multiarray.scalar"),
        reconstruct,
        scalar,
        np.ndarray,
        np.dtype,
        *dtypes,
    ]

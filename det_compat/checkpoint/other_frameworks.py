"""Checkpoints that Determined wrote for other frameworks than PyTorchTrial, told by their files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_BY_FILE = {
    "saved_model.pb": "a TensorFlow estimator or Keras (TensorFlow SavedModel)",
    "determined-keras-model": "Keras",
    "determined-keras-model.h5": "Keras",
    "determined-keras-model-weights": "Keras",
    "determined-keras-model-weights.index": "Keras",
    "determined-keras-optimizer-weights.h5": "Keras",
    "callback_state": "Keras",
    "MLmodel": "PEDL in MLflow's format, which is a pickled program and no state",
}
_BY_PATTERN = {
    "*/saved_model.pb": "a TensorFlow estimator (TensorFlow SavedModel)",
    "det_state_dict_rank*.pth": "a DeepSpeedTrial",
    "pytorch_model.bin": "Hugging Face's Trainer",
    "model.safetensors": "Hugging Face's Trainer",
}


def other_framework(directory: Path, metadata: dict[str, Any] | None) -> str | None:
    """What a checkpoint without a PyTorchTrial's state is of, if that can be told.

    Args:
        directory: the checkpoint.
        metadata: its ``metadata.json``, if there is one.
    """
    for name, framework in _BY_FILE.items():
        if (directory / name).exists():
            return framework
    for pattern, framework in _BY_PATTERN.items():
        if next(directory.glob(pattern), None) is not None:
            return framework
    return _by_metadata(metadata or {})


def _by_metadata(metadata: dict[str, Any]) -> str | None:
    framework = str(metadata.get("framework") or "")
    if framework.startswith("tensorflow") or "tensorflow_version" in metadata:
        return f"TensorFlow or Keras ({framework or metadata['tensorflow_version']})"
    return None

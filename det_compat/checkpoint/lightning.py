"""A Determined checkpoint as one of Lightning, in types that ``weights_only`` loads."""

from __future__ import annotations

import importlib.metadata
import logging
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from det_compat.checkpoint.reader import Checkpoint
from det_compat.checkpoint.weights import without_ddp_prefix
from det_compat.errors import InvalidCheckpointException
from det_compat.shared.masking import without_secrets
from det_compat.shared.nested import map_nested
from det_compat.shared.plain_types import NotPlainError, to_plain
from det_compat.shared.random_state import without_array

logger = logging.getLogger("det_compat")

_KEPT_BY_LIGHTNING = ("models_state_dict", "optimizers_state_dict")


def to_lightning_checkpoint(checkpoint: Checkpoint) -> dict[str, Any]:
    """What Lightning would have in a checkpoint of the module of this trial, but for its loops.

    ``torch.load(weights_only=True)`` loads it from a file, on any machine. ``state_dict`` names
    the weights ``models.<i>.<name>``. ``hyper_parameters`` has the trial class's import path,
    hparams and experiment config without secrets. ``determined`` has all else of the checkpoint.
    What a trusted file holds that is no plain data is left out, with a warning.
    """
    counters = checkpoint.counters
    state = checkpoint.state
    kept = {
        key: without_array(value) if key == "rng_state" else value
        for key, value in state.items()
        if key not in _KEPT_BY_LIGHTNING
    }
    return {
        "epoch": counters["epochs_trained"] or 0,
        "global_step": counters["batches_trained"] or 0,
        "pytorch-lightning_version": importlib.metadata.version("pytorch-lightning"),
        "state_dict": dict(_weights(state["models_state_dict"])),
        "optimizer_states": [in_torch_types(one) for one in state["optimizers_state_dict"]],
        "lr_schedulers": [],
        "hyper_parameters": _hyper_parameters(checkpoint),
        "determined": {
            **dict(_plain(kept)),
            "trial_state": dict(counters),
            "continuation": checkpoint.continuation,
        },
    }


def _weights(models: list[dict[str, Any]]) -> Iterator[tuple[str, Any]]:
    for index, model in enumerate(models):
        for name, value in without_ddp_prefix(model).items():
            yield f"models.{index}.{name}", in_torch_types(value)


def _hyper_parameters(checkpoint: Checkpoint) -> dict[str, Any]:
    arguments = {
        "hparams": without_secrets(checkpoint.hparams),
        "exp_conf": without_secrets(checkpoint.experiment_config),
        "aggregation_frequency": 1,
    }
    if checkpoint.trial_cls_spec is None:
        return arguments
    return {"trial_cls": checkpoint.trial_cls_spec.replace(":", "."), **arguments}


def in_torch_types(value: Any) -> Any:
    """``value`` with tensors and Python's numbers for what is NumPy's."""
    return map_nested(value, _in_torch_types, keys=True)


def _in_torch_types(value: Any, where: str) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.astype(value.dtype.newbyteorder("=")))
    return to_plain(value, where)


def lightning_content(path: object, content: Any) -> dict[str, Any]:
    """The content of a checkpoint file, if Lightning can have written it.

    Raises:
        InvalidCheckpointException: it has no ``state_dict``.
    """
    if isinstance(content, dict) and isinstance(content.get("state_dict"), dict):
        return content
    raise InvalidCheckpointException(
        f"{path} is no Lightning checkpoint, which has a state_dict; of a Determined checkpoint "
        "give the directory"
    )


def _plain(state: dict[Any, Any], where: str = "") -> Iterator[tuple[Any, Any]]:
    """The entries of ``state`` that are plain data, or a part of each that is a dict."""
    for key, value in state.items():
        name = f"{where}[{key!r}]"
        try:
            yield to_plain(key), to_plain(value, name)
        except NotPlainError as error:
            if isinstance(value, dict) and not where:
                yield key, dict(_plain(value, name))
                continue
            logger.warning(f"left out of the checkpoint, since it is no plain data: {error}")

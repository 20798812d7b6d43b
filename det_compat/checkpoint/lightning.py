"""A Determined checkpoint as one of Lightning, in types that ``weights_only`` loads."""

import contextlib
import importlib.metadata
import logging
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from det_compat.checkpoint.reader import Checkpoint, putting_back
from det_compat.errors import InvalidCheckpointException
from det_compat.shared import masking, nested, plain_types, random_state

logger = logging.getLogger("det_compat")

_MOST_MODELS = 10_000
_KEPT_BY_LIGHTNING = ("models_state_dict", "optimizers_state_dict")


def to_lightning_checkpoint(checkpoint: Checkpoint) -> dict[str, Any]:
    """What Lightning would have in a checkpoint of the module of this trial, but for its loops.

    ``torch.load(weights_only=True)`` loads it from a file, on any machine. ``state_dict`` names
    the weights ``models.<i>.<name>``. ``hyper_parameters`` has the trial class's import path,
    hparams, and experiment config without secrets. ``determined`` has all else of the checkpoint.
    What a trusted file holds that is no plain data is left out, with a warning.

    Raises:
        InvalidCheckpointException: a part of it is no value in plain types.
    """
    counters = checkpoint.counters
    state = {key: _as_it_was(key, value) for key, value in checkpoint.state.items()}
    kept = {
        key: random_state.without_array(value) if key == "rng_state" else value
        for key, value in state.items()
        if key not in _KEPT_BY_LIGHTNING
    }
    return {
        "epoch": counters["epochs_trained"] or 0,
        "global_step": counters["batches_trained"] or 0,
        "pytorch-lightning_version": _lightning_version(),
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


def _as_it_was(key: str, value: Any) -> Any:
    """A part of a checkpoint that det_compat wrote in plain types, and not Determined."""
    if key == "models_state_dict":
        return value
    with putting_back("the checkpoint", key):
        return plain_types.from_plain(value)


def _weights(models: list[dict[str, Any]]) -> Iterator[tuple[str, Any]]:
    for index, model in enumerate(models):
        for name, value in without_ddp_prefix(model).items():
            yield f"models.{index}.{name}", in_torch_types(value)


def _lightning_version() -> str:
    for package in ("pytorch-lightning", "lightning"):  # They have the same versions.
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(package)
    raise ImportError("neither pytorch-lightning nor lightning is installed")


def _hyper_parameters(checkpoint: Checkpoint) -> dict[str, Any]:
    arguments = {
        "hparams": checkpoint.hparams,
        "exp_conf": masking.for_checkpoint(checkpoint.experiment_config),
        "aggregation_frequency": 1,
    }
    if checkpoint.trial_cls_spec is None:
        return arguments
    return {"trial_cls": checkpoint.trial_cls_spec.replace(":", "."), **arguments}


def in_torch_types(value: Any) -> Any:
    """``value`` with tensors and Python's numbers for what is NumPy's."""
    return nested.map_nested(value, _in_torch_types, keys=True)


def _in_torch_types(value: Any, where: str) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.astype(value.dtype.newbyteorder("=")))
    return plain_types.to_plain(value, where)


def lightning_content(path: object, content: Any) -> dict[str, Any]:
    """The content of a checkpoint file, if Lightning can have written it.

    Raises:
        InvalidCheckpointException: it has no ``state_dict``, or one of countless models.
    """
    if isinstance(content, dict) and isinstance(content.get("state_dict"), dict):
        last = max(by_model(content["state_dict"]), default=0)
        if last >= _MOST_MODELS:
            raise InvalidCheckpointException(
                f"{path} has weights of a model with the number {last}; expected {_MOST_MODELS:,} "
                "models at most"
            )
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
            yield plain_types.to_plain(key), plain_types.to_plain(value, name)
        except plain_types.NotPlainError as error:
            if isinstance(value, dict) and not where:
                yield key, dict(_plain(value, name))
                continue
            logger.warning(f"left out of the checkpoint, since it is no plain data: {error}")


_DDP = "module."
_OF_MODEL = re.compile(r"models\.(\d+)\.(.+)", re.DOTALL)


def without_ddp_prefix(state: Mapping[str, Any]) -> dict[str, Any]:
    """A model's state under the names of the model itself.

    DistributedDataParallel puts ``module.`` before all of them.
    """
    if state and all(str(name).startswith(_DDP) for name in state):
        return {name.removeprefix(_DDP): value for name, value in state.items()}
    return dict(state)


def under_names(wanted: Collection[str], state: Mapping[str, Any]) -> Mapping[str, Any]:
    """``state`` under the names ``wanted``, if ``module.`` is all that they differ by."""
    distributed = {_DDP + name: value for name, value in state.items()}
    alone = {name.removeprefix(_DDP): value for name, value in state.items()}
    for candidate in (state, distributed, alone):
        if candidate.keys() == set(wanted):
            return candidate
    return state


def by_model(state_dict: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    """The models' states in a Lightning ``state_dict``, by the number of the model in the trial.

    One whose names are not those of det_compat's modules is a single model.
    """
    models: dict[int, dict[str, Any]] = {}
    for name, value in state_dict.items():
        found = _OF_MODEL.fullmatch(str(name))
        if found is None:
            return {0: dict(state_dict)}
        models.setdefault(int(found[1]), {})[found[2]] = value
    return models

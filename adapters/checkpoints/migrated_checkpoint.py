"""A converted checkpoint for a migrated LightningModule, which has the models by other names."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from torch import nn

from det_compat.adapters.lightning.loop_progress import loop_state
from det_compat.adapters.verify.recording import load_file, module_arguments
from det_compat.errors import InvalidCheckpointException


def for_module(
    checkpoint: dict[str, Any],
    file: Path,
    name: str,
    schedulers: list[dict[str, Any]],
    hparams: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """``checkpoint``, as the module of class ``name`` in ``file`` would have written it.

    The class is made with the hyperparameters of the checkpoint. Each model of the trial is what
    has tensors of the same names and shapes in it, in the order of its attributes where several
    have. Tensors of the module that the trial did not wrap stay as they are in a new module.

    Args:
        checkpoint: of ``to_lightning_checkpoint``.
        file: a Python file, which is imported.
        name: a LightningModule in it.
        schedulers: the states of the LR schedulers, in the order in which they were wrapped.
        hparams: hyperparameters beside those of the checkpoint; they win.

    Raises:
        InvalidCheckpointException: a model of the checkpoint is not in the module.
        TypeError: the class is no LightningModule.
        ValueError: there is no such class in the file, or a hyperparameter is missing.
    """
    module_cls = getattr(load_file(file), name, None)
    if module_cls is None:
        raise ValueError(f"{file} has no class {name}")
    if not (isinstance(module_cls, type) and issubclass(module_cls, pl.LightningModule)):
        raise TypeError(f"{file}:{name} is no LightningModule: migrate the trial first")
    arguments = _arguments(module_cls, checkpoint["hyper_parameters"], hparams or {})
    module = module_cls(**arguments)
    return {
        **checkpoint,
        "state_dict": _renamed(module, checkpoint["state_dict"]),
        "lr_schedulers": schedulers,
        "hyper_parameters": arguments,
        "hparams_name": "kwargs",
        "loops": {"fit_loop": _at_start_of_epoch(checkpoint["epoch"], checkpoint["global_step"])},
        "callbacks": {},
    }


def _arguments(
    module_cls: type, saved: Mapping[str, Any], more: Mapping[str, Any]
) -> dict[str, Any]:
    hparams = {**(saved.get("hparams") or {}), **more}
    arguments = module_arguments(module_cls, {**saved, "hparams": hparams})
    parameters = [*inspect.signature(module_cls).parameters.values()]
    missing = [
        p.name
        for p in parameters
        if p.default is p.empty
        and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)
        and p.name not in arguments
    ]
    if missing:
        raise ValueError(
            f"{module_cls.__name__} needs {', '.join(missing)}, which the checkpoint does not "
            "have: give what is missing as --hparams '{...}'"
        )
    return arguments


def _renamed(module: nn.Module, weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    own = module.state_dict(keep_vars=True)
    found: dict[int, torch.Tensor] = {}
    state = {name: value.detach() for name, value in own.items() if torch.is_tensor(value)}
    taken: list[str] = []
    for index, model in enumerate(_models(weights)):
        prefix = _place(own, model, taken)
        if prefix is None:
            raise InvalidCheckpointException(_not_found(index, model, module))
        taken.append(prefix)
        for name, value in model.items():
            state[prefix + name] = value
            found[id(own[prefix + name])] = value
    # what the module has under several names is one tensor
    return {name: found.get(id(own[name]), value) for name, value in state.items()}


def _models(weights: Mapping[str, torch.Tensor]) -> Iterator[dict[str, torch.Tensor]]:
    """The models of ``models.<i>.<name>``, but for those without tensors."""
    count = 1 + max((int(name.split(".")[1]) for name in weights), default=-1)
    for index in range(count):
        prefix = f"models.{index}."
        model = {n.removeprefix(prefix): v for n, v in weights.items() if n.startswith(prefix)}
        if model:
            yield model


def _place(
    own: Mapping[str, Any], model: Mapping[str, torch.Tensor], taken: list[str]
) -> str | None:
    """The prefix below which the module has exactly these tensors."""
    first = next(iter(model))
    for name in own:
        prefix = name.removesuffix(first)
        is_prefix = name.endswith(first) and (not prefix or prefix.endswith("."))
        if not is_prefix or any(prefix.startswith(other) for other in taken):
            continue
        shapes = {n.removeprefix(prefix): v.shape for n, v in own.items() if n.startswith(prefix)}
        if shapes == {n: v.shape for n, v in model.items()}:
            return prefix
    return None


def _not_found(index: int, model: Mapping[str, torch.Tensor], module: nn.Module) -> str:
    shown = ", ".join(f"{name} {list(value.shape)}" for name, value in [*model.items()][:3])
    return (
        f"{type(module).__name__} has no model with the {len(model)} tensors of model {index} of "
        f"the checkpoint ({shown}, ...): was it made with other code or hyperparameters?"
    )


def _at_start_of_epoch(epochs: int, batches: int) -> dict[str, Any]:
    return loop_state(batches=batches, epochs=epochs, begun=epochs, steps_of_lightning=batches)

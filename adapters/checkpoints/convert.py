"""Turning a Determined checkpoint directory into a Lightning checkpoint file."""

import inspect
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn

from det_compat.adapters.lightning.package import pl
from det_compat.checkpoint import lightning, reader
from det_compat.errors import InvalidCheckpointException
from det_compat.shared import durable_files, importing

logger = logging.getLogger("det_compat")


def convert(
    source: Path,
    target: Path,
    *,
    module: tuple[Path, str] | None = None,
    hparams: Mapping[str, Any] | None = None,
    trust: bool = False,
    force: bool = False,
) -> None:
    """Write the Lightning checkpoint ``target`` from the directory ``source``.

    Neither the trial's code nor a GPU is needed. ``target`` is there as a whole or not at all.
    Without ``module`` it is for the module that ``to_lightning`` makes of the trial.

    Args:
        source: a directory that ``read_checkpoint`` reads.
        target: the file.
        module: the file and class of a migrated LightningModule that is to load it.
        hparams: with ``module``: hyperparameters beside those of the checkpoint.
        trust: as for ``read_checkpoint``.
        force: replace a ``target`` that is there.

    Raises:
        FileExistsError: ``target`` is there already.
        OSError: it cannot be written.
        TypeError, ValueError: ``module`` is no LightningModule in a Python file.
        CorruptCheckpointError, InvalidCheckpointException, UnsafeCheckpointError: as for
            ``read_checkpoint``.
    """
    durable_files.refuse_to_overwrite([target], force=force)
    original = reader.read_checkpoint(source, trust=trust)
    checkpoint = lightning.to_lightning_checkpoint(original)
    if module is not None:
        schedulers = original.state.get("lr_schedulers_state_dict") or []
        states = [lightning.in_torch_types(one) for one in schedulers]
        checkpoint = for_module(checkpoint, *module, states, hparams)
    with durable_files.atomic_write(target) as file:
        torch.save(checkpoint, file)


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
    # Without a module, a checkpoint is converted without Lightning, whose import takes seconds.

    module_cls = getattr(importing.load_file(file), name, None)
    if module_cls is None:
        raise ValueError(f"{file} has no class {name}")
    if not (isinstance(module_cls, type) and issubclass(module_cls, pl.LightningModule)):
        raise TypeError(f"{file}:{name} is no LightningModule: migrate the trial first")
    arguments = _arguments(module_cls, checkpoint["hyper_parameters"], hparams or {})
    module = module_cls(**arguments)
    steps = checkpoint["global_step"] // arguments.get("accumulate_grad_batches", 1)
    if not module.automatic_optimization:
        # Lightning counts the steps of each.
        steps *= max(len(checkpoint.get("optimizer_states", ())), 1)
    loop = _at_start_of_epoch(checkpoint["epoch"], checkpoint["global_step"], steps)
    if arguments.keys() - inspect.signature(module_cls).parameters.keys():
        # LightningCLI finds hyperparameters that have no name in a module by this alone.
        arguments["_class_path"] = f"{module_cls.__module__}.{module_cls.__qualname__}"
    return {
        **checkpoint,
        "global_step": steps,
        "state_dict": _renamed(module, checkpoint["state_dict"]),
        "lr_schedulers": schedulers,
        "hyper_parameters": arguments,
        "hparams_name": "kwargs",
        # Lightning asks for that of each loop, and keeps to what stands in it.
        "loops": {"validate_loop": {}, "test_loop": {}, "predict_loop": {}, "fit_loop": loop},
        "callbacks": {},
    }


def _arguments(
    module_cls: type, saved: Mapping[str, Any], more: Mapping[str, Any]
) -> dict[str, Any]:
    from det_compat.adapters.verify.recording import module_arguments

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
    for index, model in enumerate(lightning.by_model(weights).values()):
        prefix = _prefix(own, model, taken)
        if prefix is None:
            raise InvalidCheckpointException(_not_found(index, model, module))
        taken.append(prefix)
        for name, value in model.items():
            state[prefix + name] = value
            found[id(own[prefix + name])] = value
    left = [name for name in state if id(own[name]) not in found]
    if left:
        logger.warning(
            f"the checkpoint has no {', '.join(left[:3])}{', ...' if left[3:] else ''} "
            f"({len(left)} tensors): Determined kept the models that were wrapped, so these are as "
            f"{type(module).__name__}() made them. Set them below load_from_checkpoint() if "
            "training goes on"
        )
    # A tensor that the module has under several names is one tensor.
    return {name: found.get(id(own[name]), value) for name, value in state.items()}


def _prefix(
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


def _at_start_of_epoch(epochs: int, batches: int, steps: int) -> dict[str, Any]:
    from det_compat.adapters.lightning.loop_progress import loop_state

    return loop_state(
        batches=batches,
        epochs=epochs,
        begun=epochs,
        steps_of_lightning=steps,
        steps_of_module=steps,
    )

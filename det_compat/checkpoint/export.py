"""Writing the weights of a checkpoint as plain state dicts, for torch or safetensors alone."""

import importlib
from pathlib import Path
from typing import Any

import torch

from det_compat.checkpoint.files.torch_file import load_torch_file
from det_compat.checkpoint.lightning import by_model, lightning_content, without_ddp_prefix
from det_compat.checkpoint.reader import read_checkpoint
from det_compat.errors import InvalidCheckpointException
from det_compat.shared.durable_files import atomic_write, refuse_to_overwrite
from det_compat.shared.extras import how_to_install

SUFFIXES = (".pt", ".safetensors")


def export(source: Path, target: Path, *, trust: bool = False, force: bool = False) -> list[Path]:
    """Write the weights of each model of ``source`` to a file, and return the files.

    With one model the file is ``target``. With several it is ``target`` with the number of the
    model before the suffix, in the order in which the trial wrapped them: ``weights.pt`` becomes
    ``weights.0.pt``, ``weights.1.pt``. Models without weights, such as losses, have no file.
    Tensors are on the CPU, contiguous, and share no memory.

    Args:
        source: a Determined checkpoint directory or a Lightning checkpoint file.
        target: a file ending in ``.pt`` or ``.safetensors``, which decides the format.
        trust: load files that ask for code to run.
        force: replace files that are there.

    Raises:
        FileExistsError: a file is there already.
        ImportError: safetensors is not installed.
        InvalidCheckpointException: ``source`` is no checkpoint, or has no weights; or it has what
            the format cannot keep.
        ValueError: ``target`` has another suffix.
    """
    if target.suffix not in SUFFIXES:
        raise ValueError(f"{target} ends in neither {' nor '.join(SUFFIXES)}: which format?")
    save = _safetensors_save() if target.suffix == ".safetensors" else None
    models = _models(source, trust)
    files = {
        index: target if len(models) == 1 else target.with_suffix(f".{index}{target.suffix}")
        for index in models
    }
    refuse_to_overwrite(files.values(), force=force)
    contents: dict[int, Any] = {
        index: _plain(source, model, save) for index, model in models.items()
    }
    if save is not None:
        contents = {i: _in_safetensors(source, model, save) for i, model in contents.items()}
    for index, file in files.items():
        with atomic_write(file) as opened:
            if save is None:
                torch.save(contents[index], opened)
            else:
                opened.write(contents[index])
    return list(files.values())


def _safetensors_save() -> Any:
    try:
        return importlib.import_module("safetensors.torch").save
    except ImportError as error:
        raise ImportError(
            f"writing .safetensors needs safetensors: {how_to_install('export')}"
        ) from error


def _models(source: Path, trust: bool) -> dict[int, dict[str, Any]]:
    if source.is_dir():
        state = read_checkpoint(source, trust=trust).state
        found = dict(enumerate(state["models_state_dict"]))
    else:
        content = lightning_content(source, load_torch_file(source, trust=trust))
        found = by_model(content["state_dict"])
    models = {index: without_ddp_prefix(model) for index, model in found.items() if model}
    if not models:
        raise InvalidCheckpointException(f"{source} has no weights: nothing to export")
    return models


def _plain(source: Path, model: dict[str, Any], save: Any) -> dict[str, Any]:
    plain = {}
    for name, value in model.items():
        if isinstance(value, torch.Tensor):
            plain[name] = _own_copy(source, name, value)
        elif save is None:
            plain[name] = value
        else:
            raise InvalidCheckpointException(
                f"{source} has {name}, which is {type(value).__name__} and no tensor: export to a "
                ".pt file, safetensors cannot keep it"
            )
    return plain


def _own_copy(source: Path, name: str, value: torch.Tensor) -> torch.Tensor:
    if value.is_meta:
        raise InvalidCheckpointException(f"{source} has {name} without its values: a meta tensor")
    copy = value.detach().cpu().clone()
    return copy.contiguous() if copy.layout == torch.strided else copy


def _in_safetensors(source: Path, tensors: dict[str, torch.Tensor], save: Any) -> bytes:
    try:
        data: bytes = save(tensors)
    except (KeyError, RuntimeError, ValueError) as error:
        raise InvalidCheckpointException(
            f"{source} has a tensor that safetensors cannot keep ({error}): export to a .pt file"
        ) from error
    return data

"""What is in a checkpoint, without loading it and without running code from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from det_compat.checkpoint.files.outline import Shape, outline
from det_compat.checkpoint.files.plain_files import read_pickle
from det_compat.checkpoint.files.torch_file import load_torch_file
from det_compat.checkpoint.layouts import READERS
from det_compat.checkpoint.reader import CONTINUATION, read_metadata, state_file
from det_compat.checkpoint.weights import by_model, without_ddp_prefix
from det_compat.errors import (
    CorruptCheckpointError,
    InvalidCheckpointException,
    UnsafeCheckpointError,
)
from det_compat.shared.masking import without_secrets

# Batch norm's; of a buffer of another name the file does not tell that it is no parameter.
_BUFFERS = ("running_mean", "running_var", "num_batches_tracked")


def describe(path: Path) -> dict[str, Any]:
    """The description of a Determined checkpoint directory or a Lightning checkpoint file.

    It is made of types that JSON has. ``safe`` is whether it loads without ``trust``; if not,
    ``asks_for`` has, for each file, the functions and classes that it asks for.

    Raises:
        CorruptCheckpointError: a file is there and cannot be read.
        InvalidCheckpointException: it is no checkpoint.
    """
    if path.is_dir():
        return _directory(path)
    return _lightning_file(path)


def _directory(path: Path) -> dict[str, Any]:
    weights = state_file(path)
    tensors = [weights, *(path / name for name in [CONTINUATION] if (path / name).is_file())]
    plain = [path / reader.file for reader in READERS if reader.file.endswith(".pkl")]
    problems = dict(_problems(tensors, [file for file in plain if file.is_file()]))
    metadata = read_metadata(path, without=set(problems))
    counters = metadata.counters
    return {
        "path": str(path),
        "layout": metadata.layout,
        "determined_version": metadata.determined_version,
        "framework": metadata.framework,
        "format": metadata.format,
        "trial": metadata.trial_cls_spec,
        "trial_id": counters["trial_id"],
        "batches_trained": counters["batches_trained"],
        "epochs_trained": counters["epochs_trained"],
        "hparams": without_secrets(metadata.hparams),
        **_of_state(_normalised(weights)),
        **_safety(problems),
        "files": dict(_files(path)),
    }


def _lightning_file(path: Path) -> dict[str, Any]:
    content = outline(path)
    if not isinstance(content, Mapping) or not isinstance(content.get("state_dict"), Mapping):
        raise InvalidCheckpointException(
            f"{path} is no Lightning checkpoint, which has a state_dict; of a Determined "
            "checkpoint give the directory"
        )
    arguments = _mapping(content.get("hyper_parameters"))
    determined = _mapping(content.get("determined"))
    counters = _mapping(determined.get("trial_state"))
    models = by_model(content["state_dict"])
    state = {
        **determined,
        "models_state_dict": [models.get(i, {}) for i in range(max(models, default=-1) + 1)],
        "optimizers_state_dict": content.get("optimizer_states") or [],
    }
    return {
        "path": str(path),
        "layout": f"Lightning {content.get('pytorch-lightning_version', '(version unknown)')}",
        "trial": _plain(arguments.get("trial_cls")),
        "trial_id": _plain(counters.get("trial_id")),
        "batches_trained": _plain(counters.get("batches_trained", content.get("global_step"))),
        "epochs_trained": _plain(counters.get("epochs_trained", content.get("epoch"))),
        "hparams": without_secrets(_plain(arguments.get("hparams", dict(arguments) or None))),
        **_of_state(state),
        **_safety(dict(_problems([path], []))),
        "files": {path.name: path.stat().st_size},
    }


def _problems(tensors: list[Path], plain: list[Path]) -> Iterator[tuple[str, list[str]]]:
    """What keeps each file from being loaded."""
    for file in [*tensors, *plain]:
        try:
            load_torch_file(file, mmap=True) if file in tensors else read_pickle(file)
        except UnsafeCheckpointError as error:
            yield file.name, error.asked or [error.reason]


def _safety(problems: dict[str, list[str]]) -> dict[str, Any]:
    return {"safe": not problems, "asks_for": problems}


def _normalised(weights: Path) -> dict[str, Any]:
    reader = next(reader for reader in READERS if weights.as_posix().endswith(reader.file))
    try:
        state: dict[str, Any] = reader.read(outline(weights))["state"]
    except CorruptCheckpointError:
        raise
    except InvalidCheckpointException as error:
        raise InvalidCheckpointException(f"{weights} cannot be used: {error}") from error
    return state


def _of_state(state: Mapping[str, Any]) -> dict[str, Any]:
    optimizers = state.get("optimizers_state_dict") or []
    return {
        "models": [_model(model) for model in state["models_state_dict"]],
        "optimizers": [_optimizer(one) for one in optimizers],
        "lr_schedulers": len(state.get("lr_schedulers_state_dict") or []),
        "callbacks": [str(name) for name in _mapping(state.get("callbacks"))],
    }


def _model(state: Mapping[str, Any]) -> dict[str, int]:
    tensors = {
        name: value for name, value in without_ddp_prefix(state).items() if isinstance(value, Shape)
    }
    buffers = {name for name in tensors if str(name).rpartition(".")[2] in _BUFFERS}
    counted = sum(value.elements for name, value in tensors.items() if name not in buffers)
    return {"parameters": counted, "tensors": len(tensors)}


def _optimizer(state: Any) -> dict[str, Any]:
    groups = _mapping(state).get("param_groups")
    found = [_mapping(group) for group in groups] if isinstance(groups, (list, tuple)) else []
    return {"groups": len(found), "lr": [_plain(group.get("lr")) for group in found]}


def _mapping(value: Any) -> Mapping[Any, Any]:
    return value if isinstance(value, Mapping) else {}


def _plain(value: Any) -> Any:
    """``value`` in types of JSON; what has none is shown as text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Shape):
        return f"tensor of shape {tuple(value)}"
    if isinstance(value, (list, tuple, set)):
        return [_plain(item) for item in value]
    return value if isinstance(value, (str, int, float, type(None))) else repr(value)


def _files(directory: Path) -> Iterator[tuple[str, int]]:
    for entry in sorted(directory.rglob("*")):
        if entry.is_file():
            yield entry.relative_to(directory).as_posix(), entry.stat().st_size

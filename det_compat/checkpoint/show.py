"""What is in a checkpoint, without loading it and without running code from it."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from det_compat.checkpoint.files.outline import Shape, outline
from det_compat.checkpoint.files.pickles import read_pickle
from det_compat.checkpoint.files.torch_file import load_torch_file
from det_compat.checkpoint.layouts import READERS
from det_compat.checkpoint.lightning import by_model, lightning_content, without_ddp_prefix
from det_compat.checkpoint.reader import CONTINUATION, read_metadata, state_reader
from det_compat.errors import UnsafeCheckpointError
from det_compat.shared.masking import without_secrets

# These are batch norm's. A file does not tell that a tensor of another name is no parameter.
_BUFFERS = ("running_mean", "running_var", "num_batches_tracked")
_PICKLES = [reader.file for reader in READERS if reader.file.endswith(".pkl")]
_UNKNOWN = "unknown"


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
    weights = state_reader(path)
    files = [path / name for name in (weights.file, CONTINUATION, *_PICKLES)]
    problems = dict(_problems([file for file in files if file.is_file()]))
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
        **_of_state(weights.told(path, outline(path / weights.file))["state"]),
        **_safety(problems),
        "files": dict(_files(path)),
    }


def _lightning_file(path: Path) -> dict[str, Any]:
    content = lightning_content(path, outline(path))
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
        **_safety(dict(_problems([path]))),
        "files": {path.name: path.stat().st_size},
    }


def _problems(files: list[Path]) -> Iterator[tuple[str, list[str]]]:
    """What keeps each file from being loaded without trust."""
    for file in files:
        try:
            read_pickle(file) if file.name in _PICKLES else load_torch_file(file, mmap=True)
        except UnsafeCheckpointError as error:
            yield file.name, error.asked or [error.reason]


def _safety(problems: dict[str, list[str]]) -> dict[str, Any]:
    return {"safe": not problems, "asks_for": problems}


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


def as_text(description: dict[str, Any]) -> str:
    """What ``describe`` tells, a fact a line."""
    return "\n".join(_lines(description))


def _lines(description: dict[str, Any]) -> Iterator[str]:
    yield str(description["path"])
    for title, value in _facts(description):
        yield f"  {title + ':':<18} {value}"
    yield "  models:"
    for index, model in enumerate(description["models"]):
        yield f"    {index}: {model['parameters']:,} parameters in {model['tensors']} tensors"
    yield "  files:"
    for name, size in description["files"].items():
        yield f"    {name} ({size:,} bytes)"
    yield from _shown_safety(description)


def _facts(description: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "layout", description["layout"]
    if "determined_version" in description:
        yield "Determined", description["determined_version"] or _UNKNOWN
        yield "framework", description["framework"] or _UNKNOWN
    yield "trial", description["trial"] or _UNKNOWN
    yield "batches trained", _count(description["batches_trained"])
    yield "epochs trained", _count(description["epochs_trained"])
    yield "hparams", json.dumps(description["hparams"])
    yield "optimizers", "; ".join(map(_shown_optimizer, description["optimizers"])) or "none"
    yield "LR schedulers", description["lr_schedulers"]
    yield "callbacks", ", ".join(description["callbacks"]) or "none"


def _count(value: Any) -> Any:
    return _UNKNOWN if value is None else value


def _shown_optimizer(optimizer: dict[str, Any]) -> str:
    return f"{optimizer['groups']} groups, lr {', '.join(map(str, optimizer['lr']))}"


def _shown_safety(description: dict[str, Any]) -> Iterator[str]:
    if description["safe"]:
        yield "  safe to load: yes"
        return
    yield "  safe to load: NO, not without --trust (trust=True), which lets these be run:"
    for name, asked in description["asks_for"].items():
        yield f"    {name}: {', '.join(asked)}"

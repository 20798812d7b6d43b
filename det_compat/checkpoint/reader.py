"""Reading a checkpoint directory of any version of Determined, or of det_compat."""

import contextlib
import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from det_compat.checkpoint.files.limits import check_extent
from det_compat.checkpoint.files.pickles import read_pickle
from det_compat.checkpoint.layouts import COUNTERS, READERS, Reader, other_framework
from det_compat.errors import (
    CorruptCheckpointError,
    InvalidCheckpointException,
    InvalidExperimentException,
    InvalidHP,
)

#: What det_compat writes beside the files of Determined, to go on exactly where it stopped.
CONTINUATION = "det_compat_state.pth"


def trusts_checkpoints() -> bool:
    """Whether the environment says that checkpoints may run code when they are loaded.

    This is for scripts whose calls have no argument ``trust``.
    """
    return os.environ.get("DET_COMPAT_TRUST_CHECKPOINTS") == "1"


@dataclass(frozen=True)
class CheckpointMetadata:
    """What a checkpoint says without its weights.

    Attributes:
        path: the directory.
        layout: the files that were read, each with the versions of Determined that wrote it.
        determined_version: the one that wrote it, where it says so.
        framework: such as ``torch-1.9.0+cpu``.
        format: ``pickle``, or ``cloudpickle`` until 0.14.
        counters: the fields of ``trial_state.pkl`` of 0.38.1, in batches but for ids and epochs;
            ``batches_trained`` and ``epochs_trained`` are None where nothing says them.
        hparams: the trial's hyperparameters, or None.
        experiment_config: the experiment config, or None.
        trial_cls_spec: the trial class as ``module:Class``, or None.
    """

    path: Path
    layout: str
    determined_version: str | None
    framework: str | None
    format: str | None
    counters: dict[str, Any]
    hparams: dict[str, Any] | None
    experiment_config: dict[str, Any] | None
    trial_cls_spec: str | None


@dataclass(frozen=True)
class Checkpoint(CheckpointMetadata):
    """A checkpoint.

    Attributes:
        state: what ``state_dict.pth`` of 0.38.1 has, under its keys: ``models_state_dict``,
            ``optimizers_state_dict`` and ``lr_schedulers_state_dict``, each a list, and as far as
            they were saved ``callbacks``, ``rng_state``, ``scaler_state_dict``, ``amp_state`` and
            what callbacks added.
        continuation: what det_compat keeps beside it to go on exactly, or None.
    """

    state: dict[str, Any]
    continuation: dict[str, Any] | None


def read_checkpoint(
    path: str | os.PathLike[str],
    *,
    trust: bool = False,
    map_location: Any = "cpu",
    continuing: bool = True,
    **torch_load_kwargs: Any,
) -> Checkpoint:
    """Read a checkpoint directory of Determined 0.12 to 0.38.1, of PEDL or of det_compat.

    No code from it is run, and ``code`` in it is not imported.

    Args:
        path: the directory.
        trust: load files that ask for more than plain values and tensors, which may run code.
        map_location: where tensors go, as ``torch.load`` takes it.
        continuing: read what only going on with training needs, too.
        **torch_load_kwargs: other arguments of ``torch.load``.

    Raises:
        CorruptCheckpointError: a file is there and cannot be read.
        InvalidCheckpointException: it is no checkpoint of a PyTorchTrial, or there is none.
        UnsafeCheckpointError: a file asks for code to run.
    """
    from det_compat.checkpoint.files.torch_file import load_torch_file

    directory = Path(path)
    kwargs = {"trust": trust, "map_location": map_location, **torch_load_kwargs}

    def load(file: Path) -> Any:
        return load_torch_file(file, **kwargs)

    fields = _fields(directory, _present(directory), trust, load)
    file = directory / CONTINUATION
    return Checkpoint(**fields, continuation=load(file) if continuing and file.is_file() else None)


def read_metadata(
    path: str | os.PathLike[str], *, trust: bool = False, without: Collection[str] = ()
) -> CheckpointMetadata:
    """As ``read_checkpoint``, without the files that hold tensors: quick, whatever their size.

    The files named in ``without`` are not read either.

    Raises:
        CorruptCheckpointError, InvalidCheckpointException, UnsafeCheckpointError: as there.
    """
    directory = Path(path)
    readers = [
        reader for reader in _present(directory) if reader.has_state or reader.file not in without
    ]
    return CheckpointMetadata(**_fields(directory, readers, trust, None))


def state_reader(directory: Path) -> Reader:
    """The reader of the file of a checkpoint directory that has the models' weights.

    Raises:
        InvalidCheckpointException: as ``read_checkpoint``.
    """
    return next(reader for reader in _present(directory) if reader.has_state)


def _present(directory: Path) -> list[Reader]:
    """The readers whose file is there; of those with a state the newest."""
    present = [reader for reader in READERS if (directory / reader.file).is_file()]
    states = [reader for reader in present if reader.has_state]
    if not states:
        raise InvalidCheckpointException(_no_checkpoint(directory))
    return [reader for reader in present if reader is states[0] or not reader.has_state]


def _no_checkpoint(directory: Path) -> str:
    if not directory.is_dir():
        what = "is a file, not a checkpoint directory" if directory.exists() else "does not exist"
        return f"{directory} {what}"
    metadata = directory / "metadata.json"
    framework = other_framework(directory, read_json(metadata) if metadata.is_file() else None)
    if framework is not None:
        return (
            f"{directory} is a checkpoint of {framework}; det_compat reads those of a PyTorchTrial"
        )
    found = sorted(entry.name for entry in directory.iterdir())
    expected = "; ".join(str(reader) for reader in READERS if reader.has_state)
    return (
        f"{directory} is no PyTorchTrial checkpoint: expected one of {expected}, found "
        f"{found or 'nothing'}"
    )


def _fields(
    directory: Path, readers: list[Reader], trust: bool, load: Callable[[Path], Any] | None
) -> dict[str, Any]:
    """The fields of a checkpoint; the state only where ``load`` reads it."""
    used: list[str] = []
    told: dict[str, Any] = {}
    for reader in readers:
        found = {}
        if load is not None or not reader.has_state:
            content = _content(directory / reader.file, trust, load)
            found = reader.told(directory, content)
        if found or reader.has_state:
            used.append(str(reader))
        told |= {name: value for name, value in found.items() if told.get(name) is None}
    for name, expected in _TYPES.items():
        value = told.get(name)
        if value is not None and not isinstance(value, expected):
            raise InvalidCheckpointException(
                f"{directory} has the {name} {value!r}; expected {expected.__name__}"
            )
    counters = {"trial_id": 0, "last_ckpt": told.get("batches_trained") or 0}
    counters |= {name: told[name] for name in COUNTERS if told.get(name) is not None}
    return {
        "path": directory,
        "layout": ", ".join(used),
        **{name: told.get(name) for name in _TYPES if name not in COUNTERS},
        "counters": {**_UNKNOWN, **counters},
        **({"state": told["state"]} if "state" in told else {}),
    }


_TYPES = {
    "determined_version": str,
    "framework": str,
    "format": str,
    "hparams": dict,
    "experiment_config": dict,
    "trial_cls_spec": str,
    "trial_id": int,
    "batches_trained": int,
}
_UNKNOWN: dict[str, Any] = {
    **dict.fromkeys(COUNTERS, 0),
    "batches_trained": None,
    "epochs_trained": None,
}


def _content(file: Path, trust: bool, load: Callable[[Path], Any] | None) -> Any:
    if file.suffix == ".json":
        return read_json(file)
    if file.suffix == ".pkl":
        return read_pickle(file, trust=trust)
    assert load is not None
    return load(file)


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file.

    Raises:
        CorruptCheckpointError: it is no JSON, is cut off, or holds something else.
    """
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise CorruptCheckpointError(
            f"{path} is corrupt or cut off: it is no JSON ({error})"
        ) from error
    if not isinstance(content, dict):
        raise CorruptCheckpointError(
            f"{path} holds {type(content).__name__} where a JSON object is expected"
        )
    checked: dict[str, Any] = check_extent(path, content)
    return checked


@contextlib.contextmanager
def putting_back(
    path: object, part: str, kinds: tuple[type[Exception], ...] = (Exception,)
) -> Iterator[None]:
    """Name the checkpoint and the part of it that the block puts back, where that fails.

    Errors of ``kinds`` are the cause of the one that is raised, and those that say what is wrong
    with a trial or a checkpoint stay what they are.

    Raises:
        InvalidCheckpointException: the block raised an error.
    """
    try:
        yield
    except (InvalidHP, InvalidExperimentException, InvalidCheckpointException):
        raise
    except kinds as error:
        raise InvalidCheckpointException(
            f"{path}: its {part} cannot be put back ({type(error).__name__}: {error})"
        ) from error


#: Errors that values of a wrong type raise, and that say nothing of where they are.
WRONG_TYPE = (TypeError, LookupError, AttributeError)

_Types = Mapping[str, type | tuple[type, ...]]

_LIST = (list, tuple)
_STATE: _Types = {
    "models_state_dict": _LIST,
    "optimizers_state_dict": _LIST,
    "lr_schedulers_state_dict": _LIST,
    "callbacks": Mapping,
    "rng_state": Mapping,
    "scaler_state_dict": Mapping,
}
_RNG_STATE = ("cpu_rng_state", "np_rng_state", "random_rng_state")
_CONTINUATION: _Types = {"ranks": _LIST, "epoch_len": int, "stop_requested": bool}
_RANK: _Types = {
    "random": Mapping,
    "cuda_random": object,
    "loaders_built": Mapping,
    "data": Mapping,
    "validation_generators": _LIST,
    "period": Mapping,
    "gradients": _LIST,
}
_DATA: _Types = {"round": int, "delivered": int, "skipped": int, "began": Mapping, "order": Mapping}
_ORDER: _Types = {
    **{"round": int, "began": _LIST, "handed": int, "is_at_end": bool, "ahead": _LIST},
    **dict.fromkeys(("passes", "skips", "generators"), _LIST),
}
_PERIOD: _Types = {"metrics": _LIST, "reducers": _LIST, "in_eval_mode": _LIST}
_OPTIMIZER: _Types = {"state": Mapping, "param_groups": _LIST}


def check_content(path: object, state: Any, counters: Any, continuation: Any) -> None:
    """Check the parts of a checkpoint that a run that goes on from it puts back.

    Args:
        path: the checkpoint, for the message.
        state: has the keys of Determined's ``state_dict.pth``.
        counters: has those of its ``trial_state.pkl``.
        continuation: has what det_compat adds, or is None.

    Raises:
        InvalidCheckpointException: something is missing or of another type.
    """
    _check(path, "state", state, _STATE)
    if state.get("rng_state") is not None:
        _check(path, "rng_state", state["rng_state"], {}, _RNG_STATE)
    names = counters if isinstance(counters, Mapping) else ()
    _check(path, "trial state", counters, dict.fromkeys(names, int))
    if continuation is None:
        return
    types = {**_CONTINUATION, "published": Mapping}
    _check(path, "continuation", continuation, types, _CONTINUATION)
    for number, rank in enumerate(continuation["ranks"]):
        what = f"continuation of rank {number}"
        _check(path, what, rank, _RANK, _RANK)
        if rank["data"] is not None:
            where = f"place in the data ({what})"
            _check(path, where, rank["data"], _DATA, _DATA)
            if (order := rank["data"]["order"]) is not None:
                _check(path, f"order of {where}", order, _ORDER, _ORDER)
        if rank["period"] is not None:
            _check(path, f"period ({what})", rank["period"], _PERIOD, _PERIOD)


def check_lightning_content(path: object, determined: Any) -> None:
    """Check likewise what det_compat puts into a checkpoint of Lightning.

    Raises:
        InvalidCheckpointException: as ``check_content``.
    """
    if not isinstance(determined, Mapping):
        raise _invalid(path, "state", "a dict", determined)
    counters = determined.get("trial_state", {})
    check_content(path, determined, counters, determined.get("continuation"))


def check_optimizer(path: object, what: str, state: Any) -> None:
    """Check likewise ``what``, the state of an optimizer that torch puts back.

    Raises:
        InvalidCheckpointException: as ``check_content``.
    """
    _check(path, what, state, _OPTIMIZER, _OPTIMIZER)
    for number, group in enumerate(state["param_groups"]):
        _check(path, f"{what}['param_groups'][{number}]", group, {"params": _LIST}, ["params"])
    for number, found in state["state"].items():
        if isinstance(number, int):
            _check(path, f"{what}['state'][{number}]", found, {})


def _check(path: object, what: str, found: Any, types: _Types, needs: Iterable[str] = ()) -> None:
    if not isinstance(found, Mapping):
        raise _invalid(path, what, "a dict", found)
    if missing := [name for name in needs if name not in found]:
        raise InvalidCheckpointException(
            f"{path} cannot be gone on from: its {what} has no {', '.join(missing)}, "
            f"only {', '.join(map(str, found)) or 'nothing'}"
        )
    for name, expected in types.items():
        value = found.get(name)
        if value is not None and not isinstance(value, expected):
            kinds = expected if isinstance(expected, tuple) else (expected,)
            names = ["dict" if kind is Mapping else kind.__name__ for kind in kinds]
            raise _invalid(path, f"{name} ({what})", " or ".join(names), value)


def _invalid(path: object, what: str, expected: str, found: Any) -> InvalidCheckpointException:
    return InvalidCheckpointException(
        f"{path} cannot be gone on from: its {what} is {type(found).__name__} {found!r:.80}; "
        f"expected {expected}"
    )

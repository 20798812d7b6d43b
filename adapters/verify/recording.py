"""The first half of ``det-compat verify``: trains the original and writes down what it did.

Each half is a process of its own, which is given the folders that ``verdict`` has made, one for
each pair.
"""

import copy
import hashlib
import importlib.util
import inspect
import json
import logging
import numbers
import sys
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from det_compat import alias_determined, to_lightning
from det_compat.adapters.lightning.package import MODULE, pl
from det_compat.adapters.verify import lightning_adapter
from det_compat.adapters.verify.verdict import PAIR, RECORDING, VERDICT, Verdict
from det_compat.config.flat import flat_values
from det_compat.config.hyperparameters import batch_size
from det_compat.config.lengths import Length, Unit
from det_compat.shared.importing import load_file
from det_compat.shared.random_state import RandomState, random_state, set_seed


@dataclass
class Recording:
    """What the original did.

    Attributes:
        paths: where each model is on the trial, as attributes, keys and indices.
        weights: the checksums of the models' tensors: at the start, and after each batch.
        batches: as the loader gave them, before they are moved to a device.
        at_batch, at_next: the random state when a batch begins, and when it is asked for.
        at_validation: the random state when each validation begins, and when its first batch does.
        at_iter: the random state when the loader is iterated over.
        epoch_length: batches in an epoch.
        repeats: whether the loader repeats itself, as Determined's do, and shuffles each time.
        metrics: the numbers of each validation.
        training_metrics: the numbers of each batch.
        had_defaults: what the trial takes beside its context, and was not given.
    """

    paths: list[tuple[Any, ...] | None] = field(default_factory=list)
    weights: list[list[dict[str, str]]] = field(default_factory=list)
    batches: list[Any] = field(default_factory=list)
    at_batch: list[RandomState] = field(default_factory=list)
    at_next: list[RandomState] = field(default_factory=list)
    at_validation: list[list[RandomState]] = field(default_factory=list)
    at_iter: RandomState = field(default_factory=dict)
    epoch_length: int = 0
    repeats: bool = True
    metrics: list[dict[str, float]] = field(default_factory=list)
    training_metrics: list[dict[str, float]] = field(default_factory=list)
    had_defaults: list[str] = field(default_factory=list)


def checksum(tensor: torch.Tensor) -> str:
    """A digest of a tensor's type, shape and every bit of its elements."""
    plain = tensor.detach().cpu().contiguous()
    data = plain.reshape(-1).view(torch.uint8).numpy().tobytes() if plain.numel() else b""
    header = f"{plain.dtype}{tuple(plain.shape)}".encode()
    return hashlib.sha256(header + data).hexdigest()


def checksums(model: nn.Module) -> dict[str, str]:
    """The checksums of a model's parameters and buffers, by name."""
    state = model.state_dict()
    return {name: checksum(value) for name, value in state.items() if torch.is_tensor(value)}


def numbers_in(metrics: Mapping[str, Any]) -> dict[str, float]:
    """The metrics that are numbers, without the counters that the library adds.

    Each of several has its index in its name, as ``migrate`` logs them.
    """
    found = {}
    for name, value in metrics.items():
        if name in ("batches", "epochs"):
            continue
        values = _numbers(value)
        several = {f"{name}_{index}": number for index, number in enumerate(values)}
        found.update({name: values[0]} if len(values) == 1 else several)
    return found


def _numbers(value: Any) -> list[float]:
    if isinstance(value, (list, tuple)):
        return [number for each in value for number in _numbers(each)]
    if isinstance(value, torch.Tensor):
        return [] if value.is_complex() else value.detach().double().flatten().tolist()
    if not isinstance(value, (numbers.Real, np.ndarray, np.generic)):
        return []
    array = np.asarray(value)
    return [float(number) for number in array.ravel()] if array.dtype.kind in "biuf" else []


def described(error: BaseException) -> str:
    """An error, and the last line of code outside of the libraries that it passed."""
    where, traceback = "", error.__traceback__
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if not file.startswith("<") and "site-packages" not in file and "adapters" not in file:
            where = f" ({file}:{traceback.tb_lineno})"
        traceback = traceback.tb_next
    first_line = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {first_line}{where}"


def module_arguments(
    module_cls: Any, arguments: dict[str, Any], had_defaults: Collection[str] = ()
) -> dict[str, Any]:
    """The arguments that the module takes: hyperparameters, data and the experiment config.

    What the trial took beside its context, and had its default, is no hyperparameter of the module
    unless that takes it by keyword alone.
    """
    config = arguments.get("exp_conf") or {}
    optimizations = config.get("optimizations") or {}
    given = {
        "data_config": config.get("data") or {},
        "experiment_config": config,
        "accumulate_grad_batches": optimizations.get("aggregation_frequency", 1),
    }
    given.update(arguments.get("hparams") or {})
    parameters = inspect.signature(module_cls.__init__).parameters
    places = [name for name, p in parameters.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
    given = {n: v for n, v in given.items() if n not in places or n not in had_defaults}
    if "experiment_config" not in parameters:
        # What a trial took from its config, its module takes by a name of its own.
        own = (name for name, p in parameters.items() if p.kind is p.KEYWORD_ONLY)
        values = flat_values(config)
        given = {**{name: values[name] for name in own if name in values}, **given}
    beside = parameters.get(HPARAMS)
    is_open = beside is not None and beside.kind is beside.VAR_KEYWORD
    is_closed = not any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    is_only = is_closed and parameters.keys().isdisjoint(given)
    if beside is not None and not is_open and (beside.default is beside.empty or is_only):
        # A trial for Determined's Trainer got the hyperparameters beside its context, which
        # nobody gave to one that has others where it gets none.
        given[HPARAMS] = arguments.get("hparams") or {}
    if is_closed and len(lacking := _beside(parameters) - given.keys()) == 1:
        given[lacking.pop()] = arguments.get("hparams") or {}
    if not is_closed:
        extra = {name for name in _EXTRA if config and _mentions(module_cls, name)}
        return {n: v for n, v in given.items() if n in extra or n not in _EXTRA}
    return {name: value for name, value in given.items() if name in parameters}


def _mentions(module_cls: type, name: str) -> bool:
    """Whether the code of a class or of its bases, mixins too, has a name: it may ask for it."""
    lightnings = {*pl.LightningModule.__mro__}
    own = [base for base in module_cls.__mro__ if base not in lightnings]
    return any(name in inspect.getsource(base) for base in own if base.__module__ != "builtins")


def _beside(parameters: Mapping[str, inspect.Parameter]) -> set[str]:
    """What a constructor needs by position, which a script gives: it may be all hyperparameters."""
    return {*_needed(parameters, inspect.Parameter.POSITIONAL_OR_KEYWORD)} - {"self"}


def _needed(parameters: Mapping[str, inspect.Parameter], *kinds: Any) -> list[str]:
    return [name for name, p in parameters.items() if p.kind in kinds and p.default is p.empty]


HPARAMS = "hparams"
_EXTRA = ("data_config", "experiment_config", "accumulate_grad_batches")


class StopAfter(pl.Callback):
    """Ends training after a number of batches, however long epochs are.

    Attributes:
        left: how many are still to come.
    """

    def __init__(self, batches: int) -> None:
        self.left = batches

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        self.left -= 1
        if self.left <= 0:
            trainer.should_stop = True


def trainer(callback: pl.Callback, stop: StopAfter, logs: str, **flags: Any) -> pl.Trainer:
    """A Trainer that trains on the CPU until ``stop``, and validates after every epoch.

    ``flags`` are more of its arguments.
    """
    # Lightning logs the devices that it found, for which nobody has asked here.
    logging.getLogger(MODULE).setLevel(logging.ERROR)
    has_tensorboard = importlib.util.find_spec("tensorboard") is not None
    logger = pl.loggers.TensorBoardLogger(logs) if has_tensorboard else False
    return pl.Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=-1,
        callbacks=[callback, stop],
        logger=logger,
        default_root_dir=logs,
        enable_progress_bar=False,
        enable_model_summary=False,
        **flags,
    )


class _RecordedBatches:
    """The training batches, each kept as it comes."""

    def __init__(self, batches: Any, recording: Recording) -> None:
        self._batches = batches
        self._recording = recording

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        self._recording.at_next.append(random_state())
        batch = next(self._batches)
        self._recording.batches.append(copy.deepcopy(batch))
        return batch


class _Recorder(pl.Callback):
    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: Any, *_: Any) -> None:
        if not self._recording.weights:
            models = pl_module.context.models
            self._recording.paths = [_path_of(model, pl_module.trial) for model in models]
            self._note_weights(pl_module)
            self._note_metrics(pl_module.run.training.metrics)
        self._recording.at_batch.append(random_state())

    def on_validation_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        self._recording.at_validation.append([random_state()])

    def on_validation_batch_start(self, *_: Any) -> None:
        if len(self._recording.at_validation[-1]) == 1:
            self._recording.at_validation[-1].append(random_state())

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: Any, *_: Any) -> None:
        self._note_weights(pl_module)

    def _note_metrics(self, window: Any) -> None:
        append = window.append

        def append_and_note(metrics: dict[str, Any]) -> None:
            append(metrics)
            self._recording.training_metrics.append(numbers_in(metrics))

        # A period may be over, and its metrics gone, before the batch has ended.
        window.append = append_and_note

    def _note_weights(self, pl_module: Any) -> None:
        self._recording.weights.append([checksums(model) for model in pl_module.models])


def _path_of(model: Any, owner: Any) -> tuple[Any, ...] | None:
    """Where ``model`` is among the attributes of ``owner``, lists and dicts among them."""
    attributes = {**getattr(owner, "_modules", {}), **vars(owner)}
    for name, value in attributes.items():
        if value is model:
            return (name,)
        for key, item in _items(value):
            if item is model:
                return (name, key)
    return None


def _items(value: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(value, Mapping):
        yield from value.items()
    elif isinstance(value, (list, tuple, nn.ModuleList)):
        yield from enumerate(value)


def record(
    trial_cls: type, arguments: dict[str, Any], batches: int, seed: int, logs: str
) -> Recording:
    """Train a trial for a number of batches, or as long as its config says, if that is less."""
    recording, stop = Recording(), StopAfter(batches)
    own = [*inspect.signature(trial_cls).parameters.values()][1:]
    recording.had_defaults = [each.name for each in own if each.default is not each.empty]
    module: Any = to_lightning(_given_hparams(trial_cls))(**arguments)
    load = module.train_dataloader

    def train_dataloader() -> _RecordedBatches:
        loaded = load()
        recording.epoch_length = len(loaded)
        stop.left = min(stop.left, _longest(arguments, len(loaded)))
        recording.repeats = module.run.stream.repeats_by_itself
        recording.at_iter = module.run.stream.position()["began"]
        return _RecordedBatches(loaded, recording)

    def note_metrics(batches: int, metrics: dict[str, Any]) -> None:
        recording.metrics.append(numbers_in(metrics))

    # The method of the object is replaced: a subclass would be another class to super().
    module.train_dataloader = train_dataloader
    module.pace.on_validated.append(note_metrics)
    flags = {"num_sanity_val_steps": 0, "enable_checkpointing": False}
    runner = trainer(_Recorder(recording), stop, logs, **flags)
    set_seed(seed)
    runner.fit(module)
    return recording


def _longest(arguments: dict[str, Any], epoch_batches: int) -> int:
    """The batches that a trial's config trains: a schedule may have no more steps."""
    length = ((arguments["exp_conf"] or {}).get("searcher") or {}).get("max_length")
    if not isinstance(length, dict):
        return sys.maxsize
    size = batch_size(arguments["hparams"])
    try:
        ((unit, value),) = length.items()
        return Length(value, Unit(unit)).batches(size, epoch_batches=epoch_batches) or sys.maxsize
    except ValueError:
        return sys.maxsize  # Of records, nobody knows how many are in a batch.


def _given_hparams(trial_cls: Any) -> Any:
    """The trial class; one that is given the hyperparameters beside the context gets them."""
    parameters = [*inspect.signature(trial_cls.__init__).parameters.items()][2:]
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    names = _needed(dict(parameters), *kinds)
    if not names:
        return trial_cls
    if len(names) > 1:
        others = ", ".join(name for name in names if name != HPARAMS)
        known = f"only a script knows what {trial_cls.__name__} takes as {others}"
        raise UnknownArgumentsError(known)
    (name,) = names

    def __init__(self: Any, context: Any, **kwargs: Any) -> None:
        trial_cls.__init__(self, context, **{name: context.get_hparams(), **kwargs})

    return type(trial_cls)(trial_cls.__name__, (trial_cls,), {"__init__": __init__})


class UnknownArgumentsError(TypeError):
    """A class takes more beside its context than the hyperparameters."""


def main(folders: list[str]) -> None:
    """Record the original of the pair in each folder; a verdict is written where that fails."""
    alias_determined()
    sys.modules[lightning_adapter.MODULE] = lightning_adapter
    for folder in map(Path, folders):
        pair = json.loads((folder / PAIR).read_text())
        file, name = pair["old"]
        try:
            module = load_file(Path(file))
            (folder / PAIR).write_text(json.dumps({**pair, "module": module.__name__}))
            trial_cls, logs = getattr(module, name), str(folder / "logs")
            recording = record(trial_cls, pair["arguments"], pair["batches"], pair["seed"], logs)
            torch.save(vars(recording), folder / RECORDING)
        except UnknownArgumentsError as error:
            verdict = Verdict(unrepeated=str(error))
            (folder / VERDICT).write_text(json.dumps(asdict(verdict)))
        # The comparison reports whatever the user's code raises.
        except (Exception, SystemExit) as error:
            verdict = Verdict(original_error=described(error))
            (folder / VERDICT).write_text(json.dumps(asdict(verdict)))


if __name__ == "__main__":
    main(sys.argv[1:])

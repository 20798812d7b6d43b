"""The second half of ``det-compat verify``: trains the migrated module, and compares.

The module gets the batches that the original got, and the random state that it had when a batch
began, since Lightning asks loaders for a new iterator every epoch, which draws random numbers.
Whether the module's own loader gives these batches is compared in the first epoch.
"""

import importlib.abc
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from det_compat.adapters.lightning.package import pl
from det_compat.adapters.verify.recording import (
    Recording,
    StopAfter,
    checksum,
    checksums,
    described,
    module_arguments,
    numbers_in,
    trainer,
)
from det_compat.adapters.verify.repeated import leave_out_unrepeated_metrics, unrepeated
from det_compat.adapters.verify.verdict import AGAIN, PAIR, RECORDING, VERDICT, Verdict
from det_compat.shared.importing import load_file
from det_compat.shared.random_state import RandomState, random_state, set_random_state, set_seed

_FORBIDDEN = ("determined", "pedl", "det_compat")


class Diverged(Exception):
    """What is different, and from which batch on."""


class _NotThere(importlib.abc.MetaPathFinder):
    """Migrated code does without Determined and det_compat."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        if fullname.partition(".")[0] in _FORBIDDEN:
            raise ImportError(f"migrated code imports {fullname}")


class _Replayed:
    """The original's batches, beside those of the loader that the module makes, when asked."""

    def __init__(self, make: Callable[[], Any], recording: Recording) -> None:
        self._make = make
        self._own: Any = None
        self._recording = recording
        self._given = 0
        self._has_begun_again = False
        self.difference = ""
        self._iterator: Iterator[Any] | None = None

    def __len__(self) -> int:
        # Lightning asks for the length where it would have had the loader made.
        self._own = self._own or [self._make()]
        return self._recording.epoch_length

    def __iter__(self) -> Iterator[Any]:
        if not self._recording.repeats:
            self._iterator = None
        for _ in range(self._recording.epoch_length):
            if self._given >= len(self._recording.batches):
                return
            if self._given < self._recording.epoch_length or not self._recording.repeats:
                self._compare()
            self._given += 1
            yield self._recording.batches[self._given - 1]

    def _compare(self) -> None:
        if self.difference or self._has_begun_again:
            return
        recording, number = self._recording, self._given
        at_next = recording.at_next[number]
        where = None if self._iterator is None else self._difference(at_next)
        if self._iterator is None:
            # Determined asked a sampler for its order with the first batch. One that draws it as
            # soon as a loader begins needs the random state of that moment. A loader that begins
            # again did so when its next batch was asked for, which has drawn a number before.
            ways = ((recording.at_iter, at_next), (at_next, at_next))
            for began, then in ways if number == 0 else ((at_next, None), (at_next, at_next)):
                set_random_state(began)
                self._iterator = iter(self._own[0])
                where = self._difference(then)
                if where is None:
                    break
        if where is not None:
            part = f" at {where}" if where else ""
            self.difference = f"batch {number} of the loader is another one{part}"

    def _difference(self, state: RandomState | None) -> str | None:
        """Where the loader's next batch is another one than the original's; None if it is not.

        ``state`` is the random state to ask for it with; None for the one that there is.
        """
        assert self._iterator is not None
        if state is not None:
            set_random_state(state)
        # Of a loader that ``migrate`` lets go on over epochs, this is torch's iterator.
        before = getattr(self._own[0], "batches", None)
        batch = next(self._iterator, None)
        if before is not None and self._own[0].batches is not before:
            # Each new iterator draws a random number, as at the beginning of an epoch.
            self._has_begun_again = True
            return None
        return difference(self._recording.batches[self._given], batch)


class _Comparison(pl.Callback):
    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._models: list[nn.Module] = []
        self._batch = 0
        self._before: RandomState = {}
        self._drawn: RandomState | None = None
        self.metrics: list[dict[str, float]] = []
        self.metrics_difference = ""

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: Any, *_: Any) -> None:
        if not self._models:
            originals = zip(self._recording.paths, self._recording.weights[0], strict=True)
            self._models = [_model_at(pl_module, path, state) for path, state in originals]
            self._compare(0, "before the first batch")
            known = [*pl_module.modules()]
            for path, model in zip(self._recording.paths, self._models, strict=True):
                if not any(model is each for each in known):
                    name = ".".join(map(str, path or ("a model",)))
                    raise Diverged(f"{name} is no submodule: no checkpoint of the module has it")
        set_random_state(self._recording.at_batch[self._batch])

    def on_validation_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        # Determined asked the loader for its iterator, which draws a number, after this hook of
        # callbacks, and Lightning before. That matters only where they draw random numbers, too.
        self._before, recorded = random_state(), self._recorded_validation(trainer)
        if recorded:
            set_random_state(recorded[0])

    def on_validation_epoch_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        self._drawn = None
        if recorded := self._recorded_validation(trainer):
            if difference(recorded[0], random_state()) is None:
                # A loader that is a batch itself draws its number when the module goes through it.
                set_random_state(
                    recorded[0] if _is_batch(trainer.val_dataloaders) else self._before
                )
            elif len(recorded) > 1:
                self._drawn = recorded[1]

    def on_validation_batch_start(self, *_: Any) -> None:
        if self._drawn is not None:
            set_random_state(self._drawn)
            self._drawn = None

    def _recorded_validation(self, trainer: pl.Trainer) -> list[RandomState]:
        """The random states of the validation that is next; none if there is no such one."""
        number, recorded = len(self.metrics), self._recording.at_validation
        return [] if trainer.sanity_checking or number >= len(recorded) else recorded[number]

    def on_train_start(self, trainer: pl.Trainer, pl_module: Any) -> None:
        # Lightning goes through the list that it has for this hook: it gets another one.
        runner: Any = trainer
        runner.callbacks = [*runner.callbacks, _AfterBatch(self)]

    def compare_batch(self, trainer: pl.Trainer) -> None:
        """Compare the models and metrics after a batch with what they were."""
        self._batch += 1
        self._compare(self._batch, f"after batch {self._batch - 1}")
        expected = self._recording.training_metrics[self._batch - 1]
        if not self.metrics_difference:
            found = metrics_difference(expected, numbers_in(trainer.callback_metrics))
            self.metrics_difference = found and f"batch {self._batch - 1}: {found}"

    @property
    def has_trained(self) -> bool:
        """Whether some parameter is another one than before the first batch."""
        first, last = self._recording.weights[0], self._recording.weights[-1]
        return any(
            before.get(name) != after.get(name)
            for model, before, after in zip(self._models, first, last, strict=True)
            for name, _ in model.named_parameters()
        )

    def on_validation_end(self, trainer: pl.Trainer, pl_module: Any) -> None:
        if trainer.sanity_checking:
            return
        self.metrics.append(numbers_in(trainer.callback_metrics))

    def _compare(self, index: int, when: str) -> None:
        for number, (model, expected) in enumerate(
            zip(self._models, self._recording.weights[index], strict=True)
        ):
            found = checksums(model)
            for name, digest in expected.items():
                if found.get(name) != digest:
                    path = self._recording.paths[number] or (f"model {number}",)
                    raise Diverged(f"{'.'.join(map(str, path))}.{name} diverges {when}")


def _is_batch(loader: Any) -> bool:
    """Whether the one batch of a loader is a loader."""
    batches: Any = getattr(loader, "dataset", None)
    is_one = isinstance(batches, list) and len(batches) == 1
    return is_one and isinstance(batches[0], torch.utils.data.DataLoader)


class _AfterBatch(pl.Callback):
    """Compares after the module's own callbacks, which may change the weights at an epoch's end."""

    def __init__(self, comparison: _Comparison) -> None:
        self._comparison = comparison

    def on_train_batch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        self._comparison.compare_batch(trainer)


def _model_at(module: Any, path: tuple[Any, ...] | None, state: dict[str, str]) -> nn.Module:
    """The model that is where the original had it, or the only one with these tensors."""
    if path is not None:
        # A module has something else of its own under a name that was changed.
        for first in (f"trial_{path[0]}", path[0]):
            found = getattr(module, first, None)
            if found is not None and len(path) == 2:
                found = found[path[1]]
            if isinstance(found, nn.Module):
                return found
    for child in module.modules():
        if checksums(child) == state:
            # Of an object of any type, mypy does not know what modules() returns.
            return child  # type: ignore[no-any-return]
    raise Diverged(f"the migrated module has no model with the tensors {', '.join(state)[:80]}")


def difference(expected: Any, found: Any) -> str | None:
    """Where two batches differ, ``""`` at the top; None if they are the same bit for bit."""
    for one, other in zip_longest(_parts(expected), _parts(found)):
        if one != other:
            where, _ = one or other
            return str(where)
    return None


def _parts(value: Any, where: str = "") -> Iterator[tuple[str, Any]]:
    """Everything in a batch that can differ, and where it is."""
    yield where, type(value)
    if isinstance(value, torch.Tensor):
        yield where, checksum(value)
    elif isinstance(value, np.ndarray) and not value.dtype.hasobject:
        yield where, (value.dtype, value.shape, value.tobytes())
    elif isinstance(value, np.ndarray):
        yield from _parts(value.tolist(), where)
    elif isinstance(value, Mapping):
        # The views that other mappings than dicts give of their keys may be equal to nothing.
        keys = sorted(value, key=repr)
        yield where, keys
        for key in keys:
            yield from _parts(value[key], f"{where}[{key!r}]")
    elif isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        yield where, len(value)
        for index, item in enumerate(value):
            yield from _parts(item, f"{where}[{index}]")
    elif hasattr(value, "__dict__"):
        yield from _parts(vars(value), where)
    else:
        yield where, value


def compare(
    module_cls: Any, arguments: dict[str, Any], recording: Recording, seed: int, logs: str
) -> str:
    """What is different; ``""`` if nothing is."""
    set_seed(seed)
    given = module_arguments(module_cls, arguments, recording.had_defaults)
    module = module_cls(**given)
    if not isinstance(module, pl.LightningModule):
        return f"{module_cls.__name__} is no LightningModule"
    comparison = _Comparison(recording)
    batches = len(recording.weights) - 1
    runner = trainer(comparison, StopAfter(batches), logs)
    # The module keeps its own loader, since its code may ask for that, too.
    replayed = _Replayed(module.train_dataloader, recording)
    try:
        runner.fit(module, train_dataloaders=replayed)
    except Diverged as found:
        return str(found)
    if comparison.has_trained and runner.optimizers and not runner.global_step:
        # It saves no checkpoints then, and never comes to max_steps.
        return "Lightning counts no step: those that are stepped are not what optimizers() gives"
    if replayed.difference:
        return replayed.difference
    return comparison.metrics_difference or _validations_difference(
        recording.metrics, comparison.metrics
    )


def _validations_difference(expected: list[dict[str, float]], found: list[dict[str, float]]) -> str:
    if len(expected) != len(found):
        return f"the original validated {len(expected)} times, the migrated module {len(found)}"
    for number, (before, after) in enumerate(zip(expected, found, strict=True)):
        # A metric that training logs, too, has another name in validation.
        names = {name: f"val_{name}" for name in before if f"val_{name}" not in before}
        renamed = {name: after[new] for name, new in names.items() if new in after}
        if where := metrics_difference(before, {**after, **renamed}):
            return f"validation {number}: {where}"
    return ""


def metrics_difference(expected: dict[str, float], found: dict[str, float]) -> str:
    """Which metric is missing or another one; ``""`` if none is."""
    for name, value in expected.items():
        # A list of one number has an index in its name, or none.
        if (new := found.get(name, found.get(f"{name}_0"))) is None:
            return f"the metric {name} is not logged"
        same = math.isclose(value, new, rel_tol=1e-5, abs_tol=1e-7)
        if not same and not (math.isnan(value) and math.isnan(new)):
            return f"{name} is {new:.9g}, and was {value:.9g}"
    return ""


def main(folders: list[str]) -> None:
    """Compare the module of the pair in each folder with the recording that is there."""
    for name in [name for name in sys.modules if name.partition(".")[0] in _FORBIDDEN]:
        del sys.modules[name]
    sys.meta_path.insert(0, _NotThere())
    for folder in map(Path, folders):
        result = asdict(Verdict())
        try:
            _compare(folder, result)
        # The comparison reports whatever the migrated code raises.
        except (Exception, SystemExit) as error:
            result["migrated_error"] = described(error)
        (folder / VERDICT).write_text(json.dumps(result))


def _compare(folder: Path, result: dict[str, Any]) -> None:
    pair = json.loads((folder / PAIR).read_text())
    file, name = pair["new"]
    _import_from_copy(Path(pair["old"][0]), Path(file))
    module = load_file(Path(file))
    result["imports"] = True
    # Recorded batches may be of a class of the original's module, by whose name they are found.
    sys.modules.setdefault(pair["module"], module)
    recording = _recording(folder)
    result["batches"] = len(recording.weights) - 1
    if (folder / AGAIN / RECORDING).exists():
        again = _recording(folder / AGAIN)
        result["unrepeated"] = unrepeated(recording, again)
        result["uncompared"] = leave_out_unrepeated_metrics(recording, again)
    result["difference"] = compare(
        getattr(module, name), pair["arguments"], recording, pair["seed"], str(folder / "logs")
    )


def _import_from_copy(old: Path, new: Path) -> None:
    """Have modules come from the migrated copy of a folder before the folder itself.

    The working directory is on Python's path, and is often the folder of the original.
    """
    while old.name and old.name == new.name:
        old, new = old.parent, new.parent
    for entry in [each for each in sys.path if Path(each).resolve().is_relative_to(old)]:
        copy = str(new / Path(entry).resolve().relative_to(old))
        if copy not in sys.path and Path(copy).is_dir():
            sys.path.insert(sys.path.index(entry), copy)


def _recording(folder: Path) -> Recording:
    return Recording(**torch.load(folder / RECORDING, weights_only=False))


if __name__ == "__main__":
    main(sys.argv[1:])

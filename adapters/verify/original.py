"""The first half of ``det-compat verify``: trains the original and writes down what it did."""

from __future__ import annotations

import copy
import inspect
import json
import numbers
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytorch_lightning as pl
import torch

from det_compat import alias_determined, to_lightning
from det_compat.adapters.verify.recording import (
    HPARAMS,
    Recording,
    checksums,
    path_of,
    trainer,
)
from det_compat.shared.importing import load_file
from det_compat.shared.random_state import random_state, set_seed


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

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: Any, batch: Any, batch_idx: int
    ) -> None:
        if not self._recording.weights:
            self._recording.paths = [
                path_of(model, pl_module.trial) for model in pl_module.context.models
            ]
            self._note_weights(pl_module)
        self._recording.at_batch.append(random_state())

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: Any, *_: Any) -> None:
        self._note_weights(pl_module)

    def _note_weights(self, pl_module: Any) -> None:
        self._recording.weights.append([checksums(model) for model in pl_module.models])


def record(
    trial_cls: type, arguments: dict[str, Any], batches: int, seed: int, logs: str
) -> Recording:
    """Train a trial for a number of batches; an error ends the recording, and is part of it."""
    recording = Recording()
    module = _recorded(to_lightning(_given_hparams(trial_cls)), recording)(**arguments)
    module.pace.on_validated.append(
        lambda batches, metrics: recording.metrics.append(numbers_in(metrics))
    )
    runner = trainer(_Recorder(recording), batches, logs)
    set_seed(seed)
    try:
        runner.fit(module)
    # whatever the user's code raises is what the comparison has to say
    except Exception as error:
        recording.error = described(error)
    return recording


def _given_hparams(trial_cls: Any) -> Any:
    """The trial class; one that is given the hyperparameters beside the context gets them."""
    parameters = [*inspect.signature(trial_cls.__init__).parameters.values()][1:]
    names = [p.name for p in parameters if p.default is p.empty]
    if HPARAMS not in names[1:]:
        return trial_cls

    def __init__(self: Any, context: Any, **kwargs: Any) -> None:
        trial_cls.__init__(self, context, **{HPARAMS: context.get_hparams(), **kwargs})

    return type(trial_cls)(trial_cls.__name__, (trial_cls,), {"__init__": __init__})


def _recorded(module_cls: Any, recording: Recording) -> Any:
    def train_dataloader(self: Any) -> _RecordedBatches:
        batches = module_cls.train_dataloader(self)
        recording.epoch_length = len(batches)
        recording.at_iter = self.run.stream.position()["began"]
        return _RecordedBatches(batches, recording)

    methods = {"train_dataloader": train_dataloader}
    return type(module_cls)(module_cls.__name__, (module_cls,), methods)


def numbers_in(metrics: dict[str, Any]) -> dict[str, float]:
    """The metrics that are a number, without the counters that the library adds."""
    found = {}
    for name, value in metrics.items():
        if isinstance(value, (np.ndarray, torch.Tensor)):
            if len(np.atleast_1d(value).reshape(-1)) == 1:
                found[name] = float(value)
        elif isinstance(value, numbers.Real):
            found[name] = float(value)
    return {name: value for name, value in found.items() if name not in ("batches", "epochs")}


def described(error: BaseException) -> str:
    """An error, and the last line of code outside of the libraries that it passed."""
    place, traceback = "", error.__traceback__
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        if not file.startswith("<") and "site-packages" not in file and "adapters" not in file:
            place = f" ({file}:{traceback.tb_lineno})"
        traceback = traceback.tb_next
    first_line = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {first_line}{place}"


def main(specifications: list[str]) -> None:
    """Record what each JSON file describes, into the file that it names."""
    alias_determined()
    for path in specifications:
        spec = json.loads(Path(path).read_text())
        try:
            recording = _recording(spec)
        # whatever the user's code raises is what the comparison has to say
        except (Exception, SystemExit) as error:
            recording = Recording(error=described(error))
        torch.save(vars(recording), spec["recording"])
        result = {"error": recording.error, "module": recording.module}
        Path(spec["result"]).write_text(json.dumps(result))


def _recording(spec: dict[str, Any]) -> Recording:
    module = load_file(Path(spec["file"]))
    recording = record(
        getattr(module, spec["name"]),
        spec["arguments"],
        spec["batches"],
        spec["seed"],
        spec["logs"],
    )
    recording.module = module.__name__
    return recording


if __name__ == "__main__":
    main(sys.argv[1:])

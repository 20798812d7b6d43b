"""Notes down what a trial goes through. Used by the drivers, as a user's own module would be."""

from __future__ import annotations

import copy
import os
import random
import re
import traceback
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from determined.pytorch import PyTorchCallback

UUID = re.compile(r"^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
TRIALS = str(Path(__file__).parent / "trials")


def seed_everything(seed: int) -> None:
    if os.environ.get("PARITY_DEVICE") == "cuda":  # see tests/gpu
        torch.use_deterministic_algorithms(True)
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def rng_state() -> dict[str, Any]:
    """The state of every global random number generator."""
    numpy_state = np.random.get_state()
    return {
        "torch": torch.get_rng_state(),
        "numpy": (numpy_state[0], numpy_state[1].copy(), *numpy_state[2:]),
        "python": random.getstate(),
    }


def _checksum(tensors: list) -> int:
    total = 0
    for tensor in tensors:
        total = zlib.crc32(tensor.detach().cpu().contiguous().numpy().tobytes(), total)
    return total


def _rng_checksums() -> dict[str, int]:
    state = rng_state()
    return {
        "torch": _checksum([state["torch"]]),
        "numpy": zlib.crc32(repr((state["numpy"][1].tolist(), state["numpy"][2:])).encode()),
        "python": zlib.crc32(repr(state["python"]).encode()),
    }


class Record:
    """Everything that two runs of a trial are compared by."""

    def __init__(self) -> None:
        self.batches: list[dict[str, Any]] = []
        self.calls: list[tuple[str, Any]] = []
        self.reports: list[tuple[str, Any]] = []

    def batch(self, context: Any, arguments: dict[str, Any]) -> None:
        """The state in which a training batch finds the run."""
        self.batches.append(
            {
                "arguments": {k: v for k, v in arguments.items() if k != "batch"},
                "lr": [[g["lr"] for g in o.param_groups] for o in context.optimizers],
                "training": [[m.training for m in model.modules()] for model in context.models],
                "weights": [_checksum(list(m.state_dict().values())) for m in context.models],
                "rng": _rng_checksums(),
            }
        )

    def watch_reports(self, train: Any) -> None:
        """Note what ``context._core.train`` is given to report."""
        for name in ("report_training_metrics", "report_validation_metrics", "report_early_exit"):
            self._watch(train, name)

    def _watch(self, train: Any, name: str) -> None:
        report = getattr(train, name)

        def watched(*args: Any, **kwargs: Any) -> Any:
            shown = [getattr(arg, "name", arg) for arg in args]
            self.reports.append((name, copy.deepcopy((shown, kwargs))))
            return report(*args, **kwargs)

        setattr(train, name, watched)


class Recorder(PyTorchCallback):
    """A callback with every method."""

    def __init__(self, record: Record) -> None:
        self._record = record

    def _note(self, hook: str, *args: Any) -> None:
        self._record.calls.append((hook, _normalized(copy.deepcopy(args))))

    def on_trial_startup(self, first_batch_idx, checkpoint_uuid):
        self._note("on_trial_startup", first_batch_idx, checkpoint_uuid)

    def on_trial_shutdown(self):
        self._note("on_trial_shutdown")

    def on_validation_start(self):
        self._note("on_validation_start")

    def on_validation_end(self, metrics):
        self._note("on_validation_end", metrics)

    def on_checkpoint_load_start(self, checkpoint):
        self._note("on_checkpoint_load_start", checkpoint)

    def on_checkpoint_save_start(self, checkpoint):
        self._note("on_checkpoint_save_start", checkpoint)

    def on_checkpoint_end(self, checkpoint_dir):
        self._note("on_checkpoint_end", checkpoint_dir)

    def on_checkpoint_write_end(self, checkpoint_dir):
        self._note("on_checkpoint_write_end", checkpoint_dir)

    def on_checkpoint_upload_end(self, uuid):
        self._note("on_checkpoint_upload_end", uuid)

    def state_dict(self):
        # det_compat keeps the state of other ranks' callbacks, too, which Determined lost
        if os.environ.get("RANK", "0") == "0":
            self._note("state_dict")
        return {"calls": len(self._record.calls)}

    def load_state_dict(self, state_dict):
        self._note("load_state_dict", state_dict)

    def on_training_start(self):
        self._note("on_training_start")

    def on_training_epoch_start(self, epoch_idx):
        self._note("on_training_epoch_start", epoch_idx)

    def on_training_epoch_end(self, epoch_idx):
        self._note("on_training_epoch_end", epoch_idx)

    def on_training_workload_end(self, avg_metrics, batch_metrics):
        self._note("on_training_workload_end", avg_metrics, batch_metrics)

    def on_validation_epoch_start(self):
        self._note("on_validation_epoch_start")

    def on_validation_epoch_end(self, outputs):
        self._note("on_validation_epoch_end", outputs)


def _normalized(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_normalized(item) for item in value)
    if isinstance(value, str) and UUID.match(value):
        return "<uuid>"
    if isinstance(value, str | Path) and UUID.match(Path(value).name):
        return f"<path: {type(value).__name__}>"
    return value


def recorded(trial_cls: type, record: Record, contexts: list, with_callback: bool) -> type:
    """``trial_cls``, noting its batches and, in a last callback, its hooks."""

    class Recorded(trial_cls):
        def train_batch(self, *args: Any, **kwargs: Any) -> Any:
            record.batch(contexts[0], kwargs)
            return super().train_batch(*args, **kwargs)

        def build_callbacks(self) -> dict[str, Any]:
            callbacks = dict(super().build_callbacks())
            if with_callback:
                callbacks["recorder"] = Recorder(record)
            return callbacks

    Recorded.__name__ = Recorded.__qualname__ = trial_cls.__name__
    Recorded.__module__ = trial_cls.__module__
    return Recorded


def error_of(error: BaseException | None) -> dict[str, Any] | None:
    """The error's type, and its first line if it is the trial's own error."""
    if error is None:
        return None
    where = traceback.extract_tb(error.__traceback__)
    own = bool(where) and where[-1].filename.startswith(TRIALS)
    code = error.code if isinstance(error, SystemExit) else None
    message = str(error).splitlines()[:1]
    found = {
        "type": type(error).__name__,
        "exit": code,
        "message": message if own else "not its own",
    }
    return {**found, "full": "".join(traceback.format_exception(error)[-6:])}


def state_of(context: Any, trial: Any, record: Record) -> dict[str, Any]:
    """What a run left behind."""
    models = getattr(context, "models", [])
    return {
        "models": [model.state_dict() for model in models],
        "gradients": [[p.grad for p in model.parameters()] for model in models],
        "optimizers": [opt.state_dict() for opt in getattr(context, "optimizers", [])],
        "schedulers": [s.state_dict() for s in getattr(context, "lr_schedulers", [])],
        "rng": rng_state(),
        "batches": record.batches,
        "calls": record.calls,
        "reports": record.reports,
        "seen": getattr(trial, "seen", []),
    }

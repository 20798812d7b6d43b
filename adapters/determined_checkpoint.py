"""Checkpoint directories in the layout of Determined 0.38.1."""

from __future__ import annotations

import json
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

import det_compat
from det_compat.adapters.run_state import run_state
from det_compat.adapters.trial_run import TrialRun
from det_compat.pytorch._checkpoint_file import load_state_dict_file

_SOURCE_SUFFIXES = (".py", ".ipynb", ".yaml", ".yml", ".json", ".toml", ".txt")
_LARGEST_SOURCE = 2**20


def write_checkpoint(run: TrialRun) -> None:
    """Write a checkpoint directory and tell the callbacks; every rank calls it, the chief writes."""
    run.state.last_ckpt = run.state.batches_trained
    uuid = ""
    if run.is_chief:
        run.context._core.train.set_status("checkpointing")
        metadata = {
            "determined_version": "0.38.1",
            "det_compat_version": det_compat.__version__,
            "steps_completed": run.state.batches_trained,
            "framework": f"torch-{torch.__version__}",
            "format": "pickle",
        }
        with run.context._core.checkpoint.store_path(metadata) as (path, uuid):
            _write(run, path)
    uuid = run.context.distributed.broadcast(uuid)
    run.callbacks.call("on_checkpoint_upload_end", uuid=uuid)


def _write(run: TrialRun, path: Path) -> None:
    _copy_sources(Path.cwd(), path / "code")
    checkpoint = run_state(run)
    run.callbacks.call("on_checkpoint_save_start", checkpoint)
    torch.save(checkpoint, path / "state_dict.pth")
    with (path / "trial_state.pkl").open("wb") as file:
        pickle.dump(dict(vars(run.state)), file)
    (path / "load_data.json").write_text(json.dumps(_load_data(run)))
    run.callbacks.call("on_checkpoint_end", str(path))
    run.callbacks.call("on_checkpoint_write_end", str(path))


def _load_data(run: TrialRun) -> dict[str, Any]:
    context, trial_cls = run.context, type(run.trial)
    complete = context._exp_conf is not None and context._hparams is not None
    return {
        "trial_type": "PyTorchTrial",
        "experiment_config": context._exp_conf if complete else None,
        "hparams": context._hparams if complete else None,
        "trial_cls_spec": f"{trial_cls.__module__}:{trial_cls.__qualname__}",
        "is_trainer": True,
    }


def _copy_sources(origin: Path, target: Path) -> None:
    target.mkdir()
    for file in _sources(origin, target):
        copy = target / file.relative_to(origin)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, copy)


def _sources(folder: Path, target: Path) -> Iterator[Path]:
    """Small text files that a trial can be imported from; no environments, caches or data."""
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith(".") or entry.name == "__pycache__" or entry == target:
            continue
        if entry.is_dir() and not entry.is_symlink():
            if not (entry / "pyvenv.cfg").exists():
                yield from _sources(entry, target)
        elif entry.suffix in _SOURCE_SUFFIXES and entry.stat().st_size <= _LARGEST_SOURCE:
            yield entry


def read_checkpoint(path: Path) -> dict[str, Any]:
    """The state in a checkpoint directory, with its counters under ``trial_state``."""
    state = load_state_dict_file(path / "state_dict.pth")
    with (path / "trial_state.pkl").open("rb") as file:
        state["trial_state"] = _CountersOnly(file).load()
    return state


class _CountersOnly(pickle.Unpickler):
    """Reads plain values and refuses everything that would import code."""

    def find_class(self, module: str, name: str) -> Any:
        raise pickle.UnpicklingError(
            f"trial_state.pkl asks for {module}.{name}; only plain counters are read from it"
        )

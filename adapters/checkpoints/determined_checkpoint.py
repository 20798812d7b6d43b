"""Checkpoint directories in the layout of Determined 0.38.1."""

import json
import logging
import os
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

import det_compat
from det_compat.adapters.checkpoints.run_state import plain_state, state_of
from det_compat.adapters.generations.adapted import user_trial
from det_compat.adapters.run.trial_run import TrialRun
from det_compat.checkpoint.reader import CONTINUATION
from det_compat.fit.run_folder import RECORD
from det_compat.shared.masking import holds_secrets, without_secrets

_SOURCE_SUFFIXES = (".py", ".ipynb", ".yaml", ".yml", ".json", ".toml", ".txt")
_CONFIG_SUFFIXES = (".yaml", ".yml", ".json")
_LARGEST_SOURCE = 2**20  # bytes
_MOST_ENTRIES = 10_000

logger = logging.getLogger("determined.pytorch")


def write_checkpoint(
    run: TrialRun, to_go_on: dict[str, Any], callbacks: dict[str, Any] | None = None
) -> str:
    """Write a checkpoint directory and tell the callbacks; returns its UUID.

    All ranks call it; the chief writes. ``to_go_on`` has, in plain types, what Determined's files
    do not keep.
    """
    run.state.last_ckpt = run.state.batches_trained
    uuid = ""
    if run.is_chief:
        run.steering.core.train.set_status("checkpointing")
        metadata = {
            "determined_version": "0.38.1",
            "det_compat_version": det_compat.__version__,
            "steps_completed": run.state.batches_trained,
            "framework": f"torch-{torch.__version__}",
            "format": "pickle",
        }
        with run.steering.core.checkpoint.store_path(metadata) as (path, uuid):
            _write(run, path, to_go_on, callbacks)
    uuid = run.context.distributed.broadcast(uuid)
    run.callbacks.call("on_checkpoint_upload_end", uuid=uuid)
    return uuid


def _write(
    run: TrialRun, path: Path, to_go_on: dict[str, Any], callbacks: dict[str, Any] | None
) -> None:
    _copy_sources(Path.cwd(), path / "code", path.parent)
    checkpoint = state_of(run, callbacks)
    run.callbacks.call("on_checkpoint_save_start", checkpoint)
    _save(plain_state(checkpoint, array_as_list=True), path / "state_dict.pth")
    _save(to_go_on, path / CONTINUATION)
    with (path / "trial_state.pkl").open("wb") as file:
        pickle.dump(dict(vars(run.state)), file)
    (path / "load_data.json").write_text(json.dumps(_load_data(run)))
    run.callbacks.checkpoint_written(str(path))


def _save(state: dict[str, Any], path: Path) -> None:
    # Given a path, torch writes by itself, and its errors say nothing about a full disk.
    with path.open("wb") as file:
        torch.save(state, file)


def _load_data(run: TrialRun) -> dict[str, Any]:
    trial_cls = type(user_trial(run.trial))
    exp_conf, hparams = run.steering.exp_conf, run.steering.hparams
    complete = exp_conf is not None and hparams is not None
    return {
        "trial_type": "PyTorchTrial",
        "experiment_config": without_secrets(exp_conf) if complete else None,
        "hparams": hparams if complete else None,
        "trial_cls_spec": f"{trial_cls.__module__}:{trial_cls.__qualname__}",
        "is_trainer": True,
    }


def _copy_sources(origin: Path, target: Path, checkpoints: Path) -> None:
    target.mkdir()
    for file in _sources(origin, checkpoints):
        copy = target / file.relative_to(origin)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, copy)


def _sources(origin: Path, checkpoints: Path) -> Iterator[Path]:
    """Small text files that a trial can be imported from; no environments, caches or data."""
    seen = 0
    for folder, folders, files in os.walk(origin):
        path = Path(folder)
        folders[:] = [name for name in folders if _may_hold_sources(path / name, checkpoints)]
        seen += len(folders) + len(files)
        if seen > _MOST_ENTRIES:
            logger.warning(
                f"{origin} has more than {_MOST_ENTRIES} files: not all sources are copied into "
                "the checkpoint's code folder; start the script in the folder of its sources"
            )
            return
        yield from (path / name for name in files if _is_source(path / name))


def _may_hold_sources(folder: Path, checkpoints: Path) -> bool:
    return not (
        folder.name.startswith(".")
        or folder.name == "__pycache__"
        or (folder / "pyvenv.cfg").exists()
        or (folder / RECORD).exists()
        or folder.resolve() == checkpoints.resolve()
    )


def _is_source(file: Path) -> bool:
    return (
        file.suffix in _SOURCE_SUFFIXES
        and file.is_file()
        and file.stat().st_size <= _LARGEST_SOURCE
        and not (file.suffix in _CONFIG_SUFFIXES and holds_secrets(file))
    )

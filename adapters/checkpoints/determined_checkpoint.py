"""Checkpoint directories in the layout of Determined 0.38.1."""

import json
import pickle
from pathlib import Path
from typing import Any

import torch

import det_compat
from det_compat.adapters.checkpoints.code_folder import code_folder
from det_compat.adapters.checkpoints.run_state import give_parts, plain_state, state_of
from det_compat.adapters.generations.adapted import user_trial
from det_compat.adapters.run.trial_run import TrialRun
from det_compat.checkpoint.reader import CONTINUATION
from det_compat.shared.masking import for_checkpoint


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
    else:
        give_parts(run)
    uuid = run.context.distributed.broadcast(uuid)
    run.callbacks.call("on_checkpoint_upload_end", uuid=uuid)
    return uuid


def _write(
    run: TrialRun, path: Path, to_go_on: dict[str, Any], callbacks: dict[str, Any] | None
) -> None:
    code_folder(Path.cwd(), path.parent).copy_to(path / "code")
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
        "experiment_config": for_checkpoint(exp_conf) if complete else None,
        "hparams": hparams if complete else None,
        "trial_cls_spec": f"{trial_cls.__module__}:{trial_cls.__qualname__}",
        "is_trainer": True,
    }

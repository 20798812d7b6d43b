"""Checkpoints as older versions wrote them, and hostile ones, for the tests."""

from __future__ import annotations

import json
import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

REAL = Path(__file__).parents[3] / "shared" / "checkpoints"
VERSIONS = ["0.13.13-pytorch-old", "0.17.6-pytorch", "0.21.0-pytorch"]

CONFIG = {
    "entrypoint": "model_def:OneWeight",
    "checkpoint_storage": {"type": "s3", "access_key": "AKIA-SECRET", "secret_key": "s3cr3t"},
}
TRIAL_STATE = {
    "trial_id": 3,
    "last_ckpt": 7,
    "step_id": 1,
    "last_val": 5,
    "batches_trained": 7,
    "epochs_trained": 2,
}


class Evil:
    """Makes a folder where it is loaded."""

    def __init__(self, made: Path) -> None:
        self._made = str(made)

    def __reduce__(self) -> Any:
        import os

        return os.mkdir, (self._made,)


def model(weight: float = 2.0) -> nn.Module:
    linear = nn.Linear(1, 1, bias=False)
    nn.init.constant_(linear.weight, weight)
    return linear


def state(weight: float = 2.0, **more: Any) -> dict[str, Any]:
    """What 0.13 and later keep in ``state_dict.pth``."""
    net = model(weight)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    return {
        "models_state_dict": [net.state_dict()],
        "optimizers_state_dict": [optimizer.state_dict()],
        "lr_schedulers_state_dict": [scheduler.state_dict()],
        "callbacks": {"best": {"value": np.float32(0.5)}},
        "rng_state": {
            "cpu_rng_state": torch.random.get_rng_state(),
            "np_rng_state": np.random.get_state(),
            "random_rng_state": random.getstate(),
        },
        **more,
    }


def singular(weight: float = 2.0) -> dict[str, Any]:
    """What versions before 0.12.13 keep."""
    plural = state(weight)
    return {
        "model_state_dict": plural["models_state_dict"][0],
        "optimizer_state_dict": plural["optimizers_state_dict"][0],
        "lr_scheduler": plural["lr_schedulers_state_dict"][0],
    }


def save(content: Any, file: Path, *, legacy: bool = False) -> Path:
    """Write as torch does, or did before 1.6."""
    file.parent.mkdir(parents=True, exist_ok=True)
    torch.save(content, file, _use_new_zipfile_serialization=not legacy)
    return file


def dump(content: Any, file: Path) -> Path:
    file.write_bytes(pickle.dumps(content))
    return file


def as_json(content: Any, file: Path) -> Path:
    file.write_text(json.dumps(content))
    return file


def of_0_38(folder: Path, content: Any = None) -> Path:
    save(content or state(), folder / "state_dict.pth")
    dump(TRIAL_STATE, folder / "trial_state.pkl")
    as_json(
        {
            "trial_type": "PyTorchTrial",
            "experiment_config": CONFIG,
            "hparams": {"lr": 0.5},
            "trial_cls_spec": "model_def:OneWeight",
            "is_trainer": True,
        },
        folder / "load_data.json",
    )
    metadata = {"determined_version": "0.38.1", "steps_completed": 7, "framework": "torch-2.4.0"}
    as_json({**metadata, "format": "pickle"}, folder / "metadata.json")
    return folder


def of_0_12(folder: Path) -> Path:
    save(singular(), folder / "state_dict.pth", legacy=True)
    as_json(
        {"cluster_id": "c", "det_version": "0.12.3", "trial_id": 9, "torch_version": "1.4.0"},
        folder / "metadata.json",
    )
    return folder

"""What an experiment config says of the Trainer: devices, strategy, profiler, logger."""

from __future__ import annotations

import os
from typing import Any

import torch
from pytorch_lightning.loggers import Logger, TensorBoardLogger
from pytorch_lightning.profilers import Profiler, PyTorchProfiler, SimpleProfiler

from det_compat.adapters.lightning.determined_pace import TRAINER_FLAGS
from det_compat.config.experiment import ExperimentConfig
from det_compat.config.settings import Profiling
from det_compat.fit.environment import launched
from det_compat.fit.errors import FitError
from det_compat.fit.run_folder import RunFolder

_LAUNCHED_BY = {
    "torchrun": ("LOCAL_WORLD_SIZE", "GROUP_WORLD_SIZE"),
    "SLURM": ("SLURM_NTASKS_PER_NODE", "SLURM_NNODES"),
}
_TO_THE_END = 2**31


def trainer_flags(experiment: ExperimentConfig) -> dict[str, Any]:
    """The flags of ``pl.Trainer`` that the config sets."""
    return {
        **TRAINER_FLAGS,
        **_device_flags(experiment.slots_per_trial),
        "enable_model_summary": False,
    }


def _device_flags(slots: int) -> dict[str, Any]:
    if (launcher := launched()) is not None:
        devices, nodes = (int(os.environ.get(name, "1")) for name in _LAUNCHED_BY[launcher])
        strategy = {"strategy": "ddp"} if devices * nodes > 1 else {}
        return {"devices": devices, "num_nodes": nodes, **strategy}
    if slots == 0:
        return {"accelerator": "cpu", "devices": 1}
    return {"devices": slots, **({"strategy": "ddp"} if slots > 1 else {})}


def check_devices(experiment: ExperimentConfig, devices: Any, command: str) -> None:
    """Raise FitError if the slots of the config are more than this machine has devices."""
    slots, available = experiment.slots_per_trial, _available()
    if devices != slots or slots <= available or launched() is not None:
        return
    kind = "GPUs" if torch.cuda.is_available() else "CPU cores"
    nodes = -(-slots // available)
    raise FitError(
        f"resources.slots_per_trial is {slots}, and this machine has {available} {kind}: train on "
        f"fewer with --trainer.devices {available}, or on {nodes} machines, each with\n"
        f"  torchrun --nnodes={nodes} --nproc_per_node={available} --rdzv_backend=c10d "
        f"--rdzv_endpoint=HOST:PORT --no-python {command}"
    )


def _available() -> int:
    return torch.cuda.device_count() if torch.cuda.is_available() else os.cpu_count() or 1


def default_logger(folder: RunFolder | None) -> Logger:
    """TensorBoard, in the run directory; off rank 0, where it is not known, nothing is written."""
    path = "." if folder is None else str(folder.tensorboard)
    return TensorBoardLogger(path, name="", version="", default_hp_metric=False)


def profiler_of(profiling: Profiling, folder: RunFolder | None) -> Profiler | None:
    """Lightning's profiler for the config; None if it asks for none."""
    if not profiling.enabled or folder is None:
        return None
    begin, end = profiling.begin_on_batch, profiling.end_after_batch
    if begin == 0 and end is None:
        return SimpleProfiler(dirpath=str(folder.path), filename="profile")
    batches = _TO_THE_END if end is None else end - begin + 1
    return PyTorchProfiler(
        dirpath=str(folder.path),
        filename="profile",
        schedule=torch.profiler.schedule(
            skip_first=begin, wait=0, warmup=0, active=batches, repeat=1
        ),
    )

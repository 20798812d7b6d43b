"""The environment variables of an experiment config."""

from __future__ import annotations

import os

from det_compat.config.experiment import ExperimentConfig


def set_environment(config: ExperimentConfig) -> None:
    """Set the variables of ``config`` for this machine's kind of device."""
    os.environ.update(config.environment.for_device(device_kind(config.slots_per_trial)))


def device_kind(slots: int) -> str:
    """``cuda``, ``rocm`` or ``cpu``: what the drivers say, since torch is not imported yet."""
    if slots == 0:
        return "cpu"
    if os.path.exists("/dev/nvidiactl"):
        return "cuda"
    return "rocm" if os.path.exists("/dev/kfd") else "cpu"

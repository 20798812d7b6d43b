"""What the environment says of this process and this machine, before torch is imported."""

import os

from det_compat.config.experiment import ExperimentConfig
from det_compat.script.machines import launched

#: Which start of a supervised command this process is, from 1; not set in any other process.
ATTEMPT = "DET_COMPAT_ATTEMPT"
# How often torchrun has started its processes again, and SLURM has put a job into the queue again.
_RESTARTS = ("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT")


def is_worker() -> bool:
    """Whether another process of this run has started this one."""
    return "LOCAL_RANK" in os.environ or launched() is not None


def restarts() -> int:
    """How often this run has been started again after a failure."""
    attempts = int(os.environ.get(ATTEMPT, "1")) - 1
    return max(attempts, *(int(os.environ.get(name, "0")) for name in _RESTARTS))


def set_environment(config: ExperimentConfig) -> None:
    """Set the variables of ``config`` for this machine's kind of device."""
    os.environ.update(device_variables(config))


def device_variables(config: ExperimentConfig) -> dict[str, str]:
    """The environment variables of ``config`` for this machine's kind of device."""
    return config.environment.for_device(device_kind(config.slots_per_trial))


def device_kind(slots: int) -> str:
    """``cuda``, ``rocm`` or ``cpu``: what the drivers say, since torch is not imported yet."""
    if slots == 0:
        return "cpu"
    if os.path.exists("/dev/nvidiactl"):
        return "cuda"
    return "rocm" if os.path.exists("/dev/kfd") else "cpu"

"""What the environment says of this process and this machine, before torch is imported."""

import os

from det_compat.config.experiment import ExperimentConfig

#: Which start of a supervised command this process is, from 1; not set in any other process.
ATTEMPT = "DET_COMPAT_ATTEMPT"


def is_chief() -> bool:
    """Whether this process is of rank 0, or there are no ranks yet."""
    for name in ("RANK", "SLURM_PROCID", "LOCAL_RANK"):
        if name in os.environ:
            return os.environ[name] == "0"
    return True


def launched() -> str | None:
    """The launcher that has started the processes of this run; None if this process is to."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        return "torchrun"
    return "SLURM" if "SLURM_NTASKS" in os.environ and "SLURM_PROCID" in os.environ else None


def is_worker() -> bool:
    """Whether another process of this run has started this one."""
    return "LOCAL_RANK" in os.environ or launched() is not None


def restarts() -> int:
    """How often this run has been started again after a failure."""
    attempts = int(os.environ.get(ATTEMPT, "1")) - 1
    return max(attempts, int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")))


def set_environment(config: ExperimentConfig) -> None:
    """Set the variables of ``config`` for this machine's kind of device."""
    os.environ.update(device_variables(config))


def device_variables(config: ExperimentConfig) -> dict[str, str]:
    """The environment variables of ``config`` for this machine's kind of device."""
    return config.environment.for_device(_device_kind(config.slots_per_trial))


def _device_kind(slots: int) -> str:
    """``cuda``, ``rocm`` or ``cpu``: what the drivers say, since torch is not imported yet."""
    if slots == 0:
        return "cpu"
    if os.path.exists("/dev/nvidiactl"):
        return "cuda"
    return "rocm" if os.path.exists("/dev/kfd") else "cpu"

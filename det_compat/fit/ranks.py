"""What the environment says of this process, before torch is imported."""

from __future__ import annotations

import os

from det_compat.fit.supervisor import ATTEMPT


def is_chief() -> bool:
    """Whether this process is of rank 0, or there are no ranks yet."""
    for name in ("RANK", "SLURM_PROCID", "LOCAL_RANK"):
        if name in os.environ:
            return os.environ[name] == "0"
    return True


def launched() -> str | None:
    """What has started the processes of this run, if it is not this process that will."""
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

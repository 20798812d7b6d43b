"""The launch that this process is of, and what all of its restarts have in common."""

from __future__ import annotations

import os
import socket

from det_compat.experiment.environment import restarts
from det_compat.experiment.processes.process_tree import begun_at, first_above_without
from det_compat.script.machines import launched

_VARIABLE = "TORCHELASTIC_RUN_ID"
_NO_ID = ("", "none")  # what torchrun has where nobody gives --rdzv_id


def launch_names() -> list[str]:
    """Names that no other launch has, and every restart of this one; none without a launcher.

    A launch is one call of torchrun on all machines, or one step of a job of SLURM, which keeps
    its number when it is put into the queue again. The agent of torchrun stays while its
    processes are started again; it counts that only after a failure, and not where machines come
    or go. People may give ``--rdzv_id`` twice, so it counts
    after a restart alone.
    """
    launcher = launched()
    if launcher == "SLURM" and "SLURM_JOB_ID" in os.environ:
        return [f"SLURM {os.environ['SLURM_JOB_ID']}.{os.environ.get('SLURM_STEP_ID', '')}"]
    if launcher != "torchrun":
        return []
    agent = first_above_without(_VARIABLE)
    own = f"torchrun {socket.gethostname()} {agent} {begun_at(agent)}"
    job = os.environ[_VARIABLE]
    return [own, *([f"torchrun --rdzv_id {job}"] if job not in _NO_ID else [])]


def is_of_launch(names: object) -> bool:
    """Whether a run, with the names of its launch, was begun by an earlier process of this one."""
    own = launch_names()
    if launched() == "torchrun" and not restarts():
        own = own[:1]
    return isinstance(names, list) and any(name in own for name in names)

"""The machines that train one run, as torchrun, SLURM or the user's own variables tell of them."""

from __future__ import annotations

import logging
import os
import re
import socket
import subprocess
from collections.abc import Sequence

logger = logging.getLogger("det_compat")

# Jobs of these names are shells, in which commands are started one by one; as in Lightning 2.6.6.
_SHELLS = ("bash", "interactive")
_RANK_OF_MACHINE = ("GROUP_RANK", "NODE_RANK", "SLURM_NODEID")
_ANY_PORT = 9
# SLURM has as many ports for jobs as its four last digits tell apart.
_PORTS_APART = 10_000
_FIRST_PORT, _LAST_PORT = 1024, 65_535


def launched() -> str | None:
    """The launcher that has started the processes of this run; None if this process is to."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        return "torchrun"
    is_task = "SLURM_NTASKS" in os.environ and "SLURM_PROCID" in os.environ
    return "SLURM" if is_task and os.environ.get("SLURM_JOB_NAME") not in _SHELLS else None


def is_chief() -> bool:
    """Whether this process is of rank 0, or there are no ranks yet."""
    if "RANK" in os.environ:
        return os.environ["RANK"] == "0"
    if launched() == "SLURM":
        return os.environ["SLURM_PROCID"] == "0"
    return os.environ.get("LOCAL_RANK", "0") == "0" and machine() == 0


def machine() -> int:
    """The rank of this machine."""
    if launched() is None:
        return int(os.environ.get("GROUP_RANK", os.environ.get("NODE_RANK", "0")))
    return next((int(os.environ[name]) for name in _RANK_OF_MACHINE if name in os.environ), 0)


def machines() -> int:
    """The number of machines, as the launcher tells it; 1 without one."""
    if "GROUP_WORLD_SIZE" in os.environ:
        return int(os.environ["GROUP_WORLD_SIZE"])
    return int(os.environ.get("SLURM_NNODES", "1")) if launched() == "SLURM" else 1


def processes_here() -> int | None:
    """The number of processes on this machine, as the launcher tells it; None if it does not."""
    if "LOCAL_WORLD_SIZE" in os.environ:
        return int(os.environ["LOCAL_WORLD_SIZE"])
    if launched() != "SLURM":
        return None
    if "SLURM_NTASKS_PER_NODE" in os.environ:
        return int(os.environ["SLURM_NTASKS_PER_NODE"])
    return int(os.environ["SLURM_NTASKS"]) // machines()


def tell_tasks_per_node() -> None:
    """Say how many tasks of SLURM a machine has, where the job says how many there are in all.

    Lightning 2.6.6 wants to be told, and all machines to have as many.
    """
    here = processes_here() or 1
    if launched() == "SLURM" and here * machines() == int(os.environ["SLURM_NTASKS"]):
        os.environ["SLURM_NTASKS_PER_NODE"] = str(here)


def tell_as_torchrun() -> None:
    """Tell a script that SLURM has started on several processes of its rank as torchrun does.

    Nothing happens in any other process, nor in one that somebody has told its rank.
    """
    count = int(os.environ.get("SLURM_NTASKS", "1")) if launched() == "SLURM" else 1
    here = processes_here() or 1
    if count < 2 or "RANK" in os.environ or "WORLD_SIZE" in os.environ:
        return
    own = {
        "RANK": os.environ["SLURM_PROCID"],
        "WORLD_SIZE": str(count),
        "LOCAL_RANK": os.environ.get("SLURM_LOCALID", str(int(os.environ["SLURM_PROCID"]) % here)),
        "LOCAL_WORLD_SIZE": str(here),
        "GROUP_RANK": str(machine()),
        "GROUP_WORLD_SIZE": str(machines()),
    }
    os.environ.update({"MASTER_ADDR": addresses()[0], "MASTER_PORT": str(port()), **own})


def leave_launcher() -> None:
    """Have this process, and those that it starts, be no task of SLURM.

    Trials of a search are none, where SLURM has started the machines of its cluster.
    """
    for name in ("SLURM_NTASKS", "SLURM_PROCID"):
        os.environ.pop(name, None)


def requeue_job() -> None:
    """Put the job of SLURM that this process is of into the queue again, and log whether it is."""
    job = os.environ.get("SLURM_JOB_ID", "")
    if array := os.environ.get("SLURM_ARRAY_JOB_ID"):
        job = f"{array}_{os.environ.get('SLURM_ARRAY_TASK_ID', '')}"
    command = ["scontrol", "requeue", job]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        failure = done.stderr.strip() if done.returncode else ""
    except OSError as error:
        failure = str(error)
    if failure:
        logger.error(f"cannot put the job into the queue again ({' '.join(command)}): {failure}")
    else:
        logger.warning(f"job {job} is in the queue again, and goes on from there by itself")


def port(beside: int = 0) -> int:
    """The port of rank 0 at which all processes meet.

    Jobs of SLURM that are on one machine at the same time have each one of their own; as in
    Lightning 2.6.6.

    Args:
        beside: 1, 2 or 3 for other ports of the same processes, at which nobody else meets.
    """
    of_job = 15_000 + int(os.environ.get("SLURM_JOB_ID", "0")[-4:])
    found = int(os.environ.get("MASTER_PORT", of_job)) + beside * _PORTS_APART
    return found if found <= _LAST_PORT else found - _LAST_PORT + _FIRST_PORT


def addresses(count: int | None = None) -> list[str]:
    """The addresses of the machines, by rank; empty ones are not known to this process yet.

    Args:
        count: how many there are, by default as many as the launcher says.
    """
    count = machines() if count is None else count
    named = _expanded(os.environ.get("SLURM_JOB_NODELIST", "")) if launched() == "SLURM" else []
    found = (named if len(named) == count else []) + [""] * count
    return [os.environ.get("MASTER_ADDR", found[0] or "127.0.0.1"), *found[1:count]]


def own_address() -> str:
    """The address of this machine by which it reaches the first one."""
    first = os.environ.get("MASTER_ADDR", "127.0.0.1")
    try:
        family, kind, protocol, _, there = socket.getaddrinfo(
            first, _ANY_PORT, type=socket.SOCK_DGRAM
        )[0]
        # Nothing is sent: the system only says which way it would go.
        with socket.socket(family, kind, protocol) as way:
            way.connect(there)
            return str(way.getsockname()[0])
    except OSError:
        return socket.gethostname()


def ranks_named(ranks: Sequence[int]) -> str:
    """Ranks as a sentence has them."""
    return f"rank{'s' * (len(ranks) > 1)} {', '.join(map(str, ranks))}"


def _expanded(names: str) -> list[str]:
    """The hosts of a list of SLURM, in which ``a[1-2,07],b`` stands for a1, a2, a07 and b."""
    found: list[str] = []
    for before, ranges, after in re.findall(r"([^,\[]+)(?:\[([^\]]+)\]([^,\[]*))?", names):
        numbers = [number for one in ranges.split(",") for number in _numbers(one)]
        found += [f"{before}{number}{after}" for number in numbers]
    return found


def _numbers(span: str) -> list[str]:
    first, is_span, last = span.partition("-")
    if not is_span:
        return [first]
    return [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]

"""``python -m determined.launch.torch_distributed``: a script on all slots, by torchrun.

In a run of ``det-compat fit``, it has the slots of the config; elsewhere, a process for each GPU of
this machine, or one. What stands before ``--`` goes to torchrun, such as ``--nproc_per_node 2``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence

from det_compat import info
from det_compat.util.processes import forward_signals

#: The port at which the processes of several machines meet.
C10D_PORT = int(os.environ.get("C10D_PORT", "29400"))

# The arguments of torchrun that say where processes meet.
_MEETING_WORDS = ("__master_addr", "__master_port", "__rdzv", "__standalone", "__nnodes")


def create_launch_cmd(
    num_nodes: int,
    proc_per_node: int,
    node_rank: int,
    master_addr: str,
    override_args: Sequence[str],
) -> list[str]:
    """The command of torchrun, up to the module that every process runs.

    Args:
        num_nodes: machines.
        proc_per_node: processes on each.
        node_rank: which machine this is.
        master_addr: where the first one is reached.
        override_args: further arguments, which count more.
    """
    says_where = any(arg.replace("-", "_").startswith(_MEETING_WORDS) for arg in override_args)
    meeting = (
        # Runs on one machine at the same time need no port of their own then.
        ["--standalone"]
        if num_nodes == 1 and not says_where
        else ["--master_addr", master_addr, "--master_port", str(C10D_PORT)]
    )
    return [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--nnodes",
        str(num_nodes),
        "--nproc_per_node",
        str(proc_per_node),
        "--node_rank",
        str(node_rank),
        "--max_restarts",
        "0",
        *meeting,
        "--module",
        *override_args,
    ]


def create_pid_server_cmd(allocation_id: str, num_slot_ids: int) -> list[str]:
    """No command: torchrun itself ends all processes when one has failed."""
    return []


def create_pid_client_cmd(allocation_id: str) -> list[str]:
    """The module that every process runs: the script, in which ``determined`` is det_compat."""
    return ["det_compat.launch.worker"]


def create_log_redirect_cmd() -> list[str]:
    """No command: the output of every process goes where this one's goes."""
    return []


def main(override_args: Sequence[str], script: Sequence[str]) -> int:
    """Run a script on all slots; its exit status.

    Args:
        override_args: for torchrun.
        script: the command of each process.
    """
    task = info.get_cluster_info()
    addresses = ["127.0.0.1"] if task is None else task.container_addrs
    slots = _gpus() if task is None else len(task.slot_ids)
    os.environ["USE_TORCH_DISTRIBUTED"] = "True"
    os.environ["DET_CHIEF_IP"] = addresses[0]
    allocation = "" if task is None else task.allocation_id
    process = subprocess.Popen(
        [
            *create_pid_server_cmd(allocation, slots),
            *create_launch_cmd(
                len(addresses),
                max(slots, 1),
                0 if task is None else task.container_rank,
                "localhost" if len(addresses) == 1 else addresses[0],
                override_args or [],
            ),
            *create_pid_client_cmd(allocation),
            *create_log_redirect_cmd(),
            *script,
        ]
    )
    with forward_signals(process):
        status = process.wait()
    # A process that a signal has ended counts as shells count it.
    return 128 - status if isinstance(status, int) and status < 0 else status


def _gpus() -> int:
    import torch

    return torch.cuda.device_count()


def parse_args(args: Sequence[str]) -> tuple[list[str], list[str]]:
    """The arguments for torchrun, and the command of each process.

    Raises:
        SystemExit: there is no command, or one next to ``--trial``.
    """
    at = list(args).index("--") if "--" in args else -1
    parser = argparse.ArgumentParser(
        usage="%(prog)s [[TORCH_OVERRIDES...] --] (--trial TRIAL)|(SCRIPT...)",
        description="Run a script on all slots by torchrun.",
        epilog="TORCH_OVERRIDES are arguments of torchrun, and end with --",
    )
    about = "(deprecated) module:Class of a trial, in place of the script"
    parser.add_argument("--trial", help=about)
    about = "the command of each process"
    parser.add_argument("script", metavar="SCRIPT...", nargs=argparse.REMAINDER, help=about)
    parsed = parser.parse_args(args[at + 1 :])
    if bool(parsed.script) == (parsed.trial is not None):
        parser.print_usage(sys.stderr)
        extra = f"extra arguments to --trial: {parsed.script}"
        print("error:", extra if parsed.script else "empty script is not allowed", file=sys.stderr)
        sys.exit(1)
    of_trial = ["python3", "-m", "determined.exec.harness", parsed.trial]
    return list(args[: max(at, 0)]), parsed.script or of_trial


if __name__ == "__main__":
    sys.exit(main(*parse_args(sys.argv[1:])))

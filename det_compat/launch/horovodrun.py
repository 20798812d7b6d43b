"""The command of ``horovodrun`` that Determined 0.38.1 started trials by; nothing here runs it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from det_compat.common.check import CheckFailedError
from det_compat.launch import constants


def create_hostlist_arg(host_slot_counts: Sequence[int], ip_addresses: Sequence[str]) -> str:
    """The hosts, each with its slots; the first is this machine."""
    if len(host_slot_counts) != len(ip_addresses):
        raise AssertionError("don't know slots for each node")
    # Horovod does not understand 0.0.0.0.
    hosts = ["localhost", *ip_addresses[1:]]
    return ",".join(f"{host}:{n}" for host, n in zip(hosts, host_slot_counts, strict=True))


def create_performance_args(optimizations: Mapping[str, Any]) -> list[str]:
    """Horovod's arguments for the ``optimizations`` of an experiment config.

    Raises:
        CheckFailedError: one is missing.
    """
    for key in (
        "auto_tune_tensor_fusion",
        "tensor_fusion_threshold",
        "tensor_fusion_cycle_time",
    ):
        if key not in optimizations:
            raise CheckFailedError(f"optimizations has no {key}")
    fusion = [
        "--fusion-threshold-mb",
        str(optimizations["tensor_fusion_threshold"]),
        "--cycle-time-ms",
        str(optimizations["tensor_fusion_cycle_time"]),
    ]
    tuned = ["--autotune", "--autotune-log-file", constants.HOROVOD_AUTOTUNE_LOG_FILEPATH]
    return [
        *(tuned if optimizations["auto_tune_tensor_fusion"] else fusion),
        # These are not to be tuned.
        "--cache-capacity",
        "1024",
        "--no-hierarchical-allreduce",
        "--no-hierarchical-allgather",
    ]


def create_run_command(
    host_slot_counts: Sequence[int],
    ip_addresses: Sequence[str],
    inter_node_network_interface: str | None,
    optimizations: Mapping[str, Any],
    debug: bool,
    optional_args: Sequence[str],
) -> list[str]:
    """The command, up to the script.

    Args:
        host_slot_counts: slots of each machine.
        ip_addresses: the machines.
        inter_node_network_interface: how they reach each other.
        optimizations: of the experiment config.
        debug: whether Horovod says more.
        optional_args: further arguments.
    """
    several = inter_node_network_interface is not None and len(ip_addresses) > 1
    interface = ["--network-interface", str(inter_node_network_interface)] if several else []
    return [
        "horovodrun",
        "-np",
        str(sum(host_slot_counts)),
        "-p",
        str(constants.DTRAIN_SSH_PORT),
        "-H",
        create_hostlist_arg(host_slot_counts, ip_addresses),
        "--start-timeout",
        str(constants.HOROVOD_STARTUP_TIMEOUT_SECONDS),
        "--gloo-timeout-seconds",
        str(constants.HOROVOD_GLOO_TIMEOUT_SECONDS),
        *interface,
        *create_performance_args(optimizations),
        *(["--verbose"] if debug else []),
        *optional_args,
        "--",
    ]

from __future__ import annotations

import itertools
from typing import Any

import pytest

from det_compat.common.check import CheckFailedError
from det_compat.launch import horovodrun

OPTIMIZATIONS = {
    "auto_tune_tensor_fusion": False,
    "tensor_fusion_threshold": 64,
    "tensor_fusion_cycle_time": 5,
}


@pytest.mark.parametrize(
    ("machines", "interface", "tunes", "debug"),
    itertools.product([1, 2], [None, "eth0"], [False, True], [False, True]),
)
def test_the_command_is_determineds(
    machines: int, interface: str | None, tunes: bool, debug: bool
) -> None:
    reference = pytest.importorskip("determined.horovod")
    arguments: dict[str, Any] = {
        "host_slot_counts": [8, 4][:machines],
        "ip_addresses": ["0.0.0.0", "10.0.0.2"][:machines],
        "inter_node_network_interface": interface,
        "optimizations": {**OPTIMIZATIONS, "auto_tune_tensor_fusion": tunes},
        "debug": debug,
        "optional_args": ["--more"],
    }
    ours = horovodrun.create_run_command(**arguments)
    assert ours == reference.create_run_command(**arguments)
    assert ours[0] == "horovodrun"


def test_what_is_missing_is_named() -> None:
    with pytest.raises(CheckFailedError, match="tensor_fusion_cycle_time"):
        horovodrun.create_performance_args(dict(list(OPTIMIZATIONS.items())[:2]))
    with pytest.raises(AssertionError, match="slots"):
        horovodrun.create_hostlist_arg([1, 2], ["a"])

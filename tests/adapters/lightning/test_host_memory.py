from __future__ import annotations

import os
import platform
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="only glibc's malloc is told to keep freed memory"
)

ROOT = Path(__file__).parents[3]

# Blocks of a training step, 32 MiB in all, of which glibc gives back what is above 16 MiB.
SCRIPT = textwrap.dedent(
    """
    import resource
    import sys
    from det_compat.adapters.lightning.host_memory import freed_memory_kept
    from det_compat.shared.own_process import claim_process

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1])

    def faults_in(steps):
        def step():
            [bytearray(8 << 20) for _ in range(4)]
        for _ in range(3):
            step()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(steps):
            step()
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

    without = faults_in(20)
    if "a guest" not in sys.argv:
        claim_process()
    with freed_memory_kept():
        kept = faults_in(20)
        most = resident()
    print(without, kept, most - resident())
    """
)


def counted(*args: str, **environment: str) -> list[int]:
    """Page faults of 20 steps without and with the memory kept, and pages given back after it."""
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT, *args],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return [int(word) for word in result.stdout.split()]


def test_a_step_takes_the_pages_of_the_step_before() -> None:
    without, kept, given_back = counted()
    assert without > 20 * 4000, "glibc has kept them by itself: this test shows nothing"
    assert kept < 100
    assert given_back > 4000


def test_a_process_of_somebody_elses_is_left_alone() -> None:
    without, kept, _ = counted("a guest")
    assert without > 20 * 4000
    assert kept > 20 * 4000


@pytest.mark.parametrize(
    "environment",
    [
        {"MALLOC_TRIM_THRESHOLD_": "131072"},
        {"MALLOC_MMAP_THRESHOLD_": "131072"},
        {"GLIBC_TUNABLES": "glibc.malloc.mmap_threshold=131072"},
    ],
    ids=str,
)
def test_what_the_environment_says_is_left_alone(environment: dict[str, str]) -> None:
    without, kept, _ = counted(**environment)
    assert kept > 20 * 4000
    assert without > 20 * 4000

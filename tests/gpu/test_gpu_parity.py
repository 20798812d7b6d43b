"""The trials of tests/parity on the device, under determined 0.38.1 and under det_compat."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.gpu.needed import skip_without_gpu

skip_without_gpu()
pytest.importorskip("determined", reason="the reference to compare with is not installed")

PARITY = Path(__file__).parents[1] / "parity"
sys.path.insert(0, str(PARITY))

from cases import CASES
from compare import SECTIONS, WEIGHTS, load, report
from runner import SIDES, run_driver

# What is left out expects an error, or something that only a CPU has.
PLAIN = [case for case in CASES if not case.differs and 1 in case.ranks]


@pytest.fixture(scope="module")
def dumps(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """What each side has dumped; a process of its own for a side, side by side."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PARITY_DEVICE", "cuda")
        patch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        found = {side: tmp_path_factory.mktemp(side) for side in SIDES}

        def run(side: str) -> None:
            names = [case.name for case in PLAIN if case.lightning or side != "lightning"]
            run_driver(side, 1, found[side], names)

        with ThreadPoolExecutor() as pool:
            list(pool.map(run, SIDES))
        return found


@pytest.mark.timeout(500)
@pytest.mark.parametrize("side", ["det_compat", "lightning"])
@pytest.mark.parametrize("case", PLAIN, ids=lambda case: case.name)
def test_equal_to_the_last_bit(side: str, case: object, dumps: dict[str, Path]) -> None:
    if side == "lightning" and not case.lightning:
        pytest.skip("the case is about pytorch.Trainer alone")
    name = f"{case.name}.0.pt"
    reference, found = load(dumps["determined"] / name), load(dumps[side] / name)
    if side == "lightning" and reference["error"]:  # a trial that draws its noise on the CPU
        assert found["error"] and found["error"]["type"] == reference["error"]["type"]
        return
    difference = report(reference, found, WEIGHTS if side == "lightning" else SECTIONS)
    assert not difference, difference

"""PEDL's trials on Lightning, and rewritten for the context API under determined 0.38.1."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("determined", reason="the reference to compare with is not installed")

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "parity")]

from compare import WEIGHTS, load, report
from pedl_driver import CASES
from runner import command, environment

RANKS = (1, 2)


def _train(side: str, ranks: int, out: Path) -> None:
    launch = command(side, ranks)
    # Determined copies the working directory into its checkpoints, so that dumps are elsewhere.
    working = out / "working"
    working.mkdir(exist_ok=True)
    done = subprocess.run(
        [*launch, str(HERE / "pedl_driver.py"), side, str(ranks), str(out / "dumps")],
        cwd=working,
        env=environment(side, ranks, out / "home"),
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-5000:]


@pytest.fixture(scope="module", params=RANKS, ids=lambda ranks: f"{ranks}-ranks")
def dumps(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where both sides left what came out."""
    out = tmp_path_factory.mktemp(f"dumps-{request.param}")
    for side in ("determined", "lightning"):
        _train(side, request.param, out)
    return out / "dumps"


@pytest.mark.xdist_group("pedl-parity")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("case", CASES)
def test_weights_and_metrics_are_the_same_to_the_last_bit(case: str, dumps: Path) -> None:
    references = sorted((dumps / "determined").glob(f"{case}.*.pt"))
    assert references
    for path in references:
        expected, got = load(path), load(dumps / "lightning" / path.name)
        assert expected["calls"]
        assert not report(expected, got, ("calls", *WEIGHTS))

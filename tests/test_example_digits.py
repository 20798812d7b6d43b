"""examples/digits trains to what it promises, through det_compat and through determined alike."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.preloaded import executable

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "examples" / "digits" / "train.py"
EPOCHS = 8

ROW = re.compile(r"^ +(\d+) +(\d+\.\d{4}) +(\d+\.\d{4}) +(\d+\.\d\d)%$", re.MULTILINE)


def train(tmp_path: Path, side: str, *command: str) -> list[tuple[str, ...]]:
    """Run the example where it may write; the rows of its table are epoch, losses and accuracy."""
    # Determined copies the working directory into its checkpoints, so that they are elsewhere.
    working, data = tmp_path / "working", tmp_path / "data"
    working.mkdir()
    done = subprocess.run(
        [executable(side), *command, str(SCRIPT), "--epochs", str(EPOCHS)],
        cwd=working,
        env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_DATA_HOME": str(data)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    table = ROW.findall(done.stdout)
    best = max(float(row[3]) for row in table)
    assert done.stdout.splitlines()[-1].startswith(f"best accuracy: {best:.2f}% ")
    return table


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, ...]]:
    return train(tmp_path_factory.mktemp("det_compat"), "det_compat", "-m", "det_compat", "run")


@pytest.mark.xdist_group("digits")
def test_over_97_percent_after_the_last_epoch(table: list[tuple[str, ...]]) -> None:
    assert [int(row[0]) for row in table] == list(range(1, EPOCHS + 1))
    assert float(table[-1][3]) > 97


@pytest.mark.xdist_group("digits")
def test_the_table_is_the_one_of_determined(table: list[tuple[str, ...]], tmp_path: Path) -> None:
    assert table == train(tmp_path, "determined")

"""examples/determined-0.12 trains as its README says."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from tests.preloaded import executable

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "examples" / "determined-0.12" / "train.py"

ACCURACY = re.compile(r"^validation (\d+): accuracy (\d+\.\d)%$", re.MULTILINE)
STEP = re.compile(r"^step (\d+): training loss (\d+\.\d{4})$", re.MULTILINE)


def test_it_learns_to_tell_wines(tmp_path: Path) -> None:
    done = subprocess.run(
        [executable(), str(SCRIPT)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    validations, steps = ACCURACY.findall(done.stdout), STEP.findall(done.stdout)
    assert [int(number) for number, _ in validations] == [1, 2, 3, 4, 5]
    assert [int(number) for number, _ in steps] == [1, 2, 3, 4, 5]
    assert float(validations[-1][1]) > 95
    assert float(steps[-1][1]) < float(steps[0][1]) / 2

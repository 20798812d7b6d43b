"""The examples of PEDL train to what they promise."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.preloaded import executable

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"


def run(tmp_path: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {"PYTHONPATH": str(ROOT), "XDG_DATA_HOME": str(tmp_path), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [executable(), *command],
        cwd=tmp_path,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize("devices", ["1", "2"])
def test_two_inputs_and_two_outputs(devices: str, tmp_path: Path) -> None:
    script = str(EXAMPLES / "pedl" / "train.py")
    done = run(tmp_path, script, "--data", str(tmp_path / "data"), "--devices", devices)
    errors = dict(re.findall(r"^(\w+_error): (0\.\d{4})$", done.stdout, re.MULTILINE))
    assert errors.keys() == {"validation_error", "is_large_error"}
    assert all(float(error) < 0.1 for error in errors.values())
    assert (tmp_path / "data" / "digits.npz").exists()


def test_a_script_that_creates_its_experiment(tmp_path: Path) -> None:
    script = str(EXAMPLES / "pedl-trial" / "pedl_train.py")
    done = run(tmp_path, "-m", "det_compat", "run", script)
    found = re.findall(r"'validation_error': (?:np\.float\d+\()?(\d\.\d+)", done.stderr)
    assert len(found) == 2
    assert float(found[-1]) < 0.06

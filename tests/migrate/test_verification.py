from __future__ import annotations

import shutil
import sys
from pathlib import Path

from det_compat.cli import main
from tests.preloaded import executable

DIGITS = Path(__file__).parents[2] / "examples" / "digits"


def test_trials_are_compared_before_they_are_written(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys, "executable", executable())
    for name in ("model_def.py", "const.yaml"):
        shutil.copy(DIGITS / name, tmp_path / name)
    command = ["migrate", str(tmp_path), "--to", "lightning", "--verify", "--batches", "2"]
    assert main(command) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"{tmp_path / 'model_def.py'}:DigitsTrial (const.yaml): " + (
        "verified: 2 batches, every tensor bit for bit"
    )
    assert (tmp_path / "model_def.py").read_text() == (DIGITS / "model_def.py").read_text()

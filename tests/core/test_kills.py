from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.fresh_python import ROOT, environment
from tests.preloaded import executable


@pytest.mark.parametrize("protocol", ["", "disk://"])
def test_a_kill_leaves_complete_checkpoints_as_they_are(protocol: str, tmp_path: Path) -> None:
    (tmp_path / "temporary").mkdir()
    done = subprocess.run(
        [executable(), "-m", "tests.core.killed_writer", f"{protocol}{tmp_path}/base", "10"],
        env={**environment(), "TMPDIR": str(tmp_path / "temporary")},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = re.fullmatch(r"(\d+) checkpoints, (\d+) unfinished\n", done.stdout)
    assert found is not None, done.stdout
    assert int(found[1]) >= 10

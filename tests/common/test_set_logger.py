from __future__ import annotations

from pathlib import Path

import pytest

from tests.fresh_python import python

CODE = """
import logging, det_compat
logging.basicConfig()
det_compat.alias_determined()
from determined.common import set_logger
set_logger({debug})
logging.getLogger("of.a.trial").{level}("told")
assert len(logging.getLogger().handlers) == 1
import sys
assert "torch" not in sys.modules
"""


@pytest.mark.parametrize(
    ("debug", "level", "told"),
    [(False, "info", True), (False, "debug", False), (True, "debug", True)],
)
def test_set_logger(debug: bool, level: str, told: bool, tmp_path: Path) -> None:
    done = python("-c", CODE.format(debug=debug, level=level), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if line.endswith("of.a.trial: told")]
    assert [line.startswith(f"{level.upper()}: [") for line in lines] == ([True] if told else [])

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

from det_compat.migrate.migration import migrate
from tests.migrate.rewriting import trial

NARROW = "[tool.ruff]\nline-length = 60\n"


@pytest.fixture(autouse=True)
def _ruff(monkeypatch):
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable), prepend=os.pathsep)
    if shutil.which("ruff") is None:
        pytest.skip("ruff is not installed")


def made(folder, settings: str, *, is_formatted: bool) -> str:
    (folder / "pyproject.toml").write_text(settings)
    path = folder / "model_def.py"
    path.write_text(trial())
    if is_formatted:
        subprocess.run(["ruff", "format", "--no-cache", "--quiet", path], check=True)
    (result,) = migrate([str(folder)], "lightning").files
    return result.after.decode()


def longest(text: str) -> int:
    return max(map(len, text.splitlines()))


def test_the_formatter_of_the_project(tmp_path):
    assert longest(made(tmp_path, NARROW, is_formatted=True)) <= 60


@pytest.mark.parametrize(
    ("settings", "is_formatted"),
    [
        pytest.param(NARROW, False, id="a file that it never saw"),
        pytest.param("", True, id="no settings"),
    ],
)
def test_files_that_it_leaves_alone(tmp_path, settings, is_formatted):
    assert longest(made(tmp_path, settings, is_formatted=is_formatted)) > 60

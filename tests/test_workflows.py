"""The workflows of CI: what they test is what pyproject.toml promises."""

from __future__ import annotations

import re
from typing import Any

import yaml

from tests.markdown import ROOT


def workflow(name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / ".github/workflows" / name).read_text())
    return found


def test_every_python_that_is_promised_is_tested_and_typed() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    promised = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', text)
    jobs = workflow("test.yml")["jobs"]
    assert jobs["types"]["strategy"]["matrix"]["python"] == promised
    assert jobs["linux"]["strategy"]["matrix"]["python"] == promised
    assert jobs["linux"]["strategy"]["matrix"]["end"] == ["lowest", "newest"]
    assert jobs["macos"]["runs-on"].startswith("macos")


def test_a_night_tries_what_is_not_released() -> None:
    matrix = workflow("nightly.yml")["jobs"]["master"]["strategy"]["matrix"]["include"]
    assert [entry["name"] for entry in matrix] == ["Lightning", "torch"]

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pytorch.libraries import NAMES, Library, library


@pytest.fixture(autouse=True)
def _in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))


@pytest.fixture(params=NAMES)
def lib(request: pytest.FixtureRequest) -> Library:
    return library(request.param)


@pytest.fixture
def ours() -> Library:
    return library("det_compat")

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.pytorch.libraries import NAMES, Library, library
from tests.torchrun import on_two_ranks


@pytest.fixture(autouse=True)
def _in_a_directory_of_its_own(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # not in the working directory, whose code is copied into checkpoints
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("home")))


@pytest.fixture(params=NAMES)
def lib(request: pytest.FixtureRequest) -> Library:
    return library(request.param)


@pytest.fixture
def ours() -> Library:
    return library("det_compat")


@pytest.fixture(scope="session")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What two_ranks.py found."""
    return on_two_ranks(Path(__file__).with_name("two_ranks.py"), tmp_path_factory)

"""A folder of its own for each run, and no trial that an earlier one has imported."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.without_determined import without_determined


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("RECORD", str(tmp_path / "record.txt"))
    monkeypatch.delitem(sys.modules, "model_def", raising=False)
    with without_determined():
        yield
    sys.modules.pop("model_def", None)

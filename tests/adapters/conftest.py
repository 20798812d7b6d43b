from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch

NOISE = (
    # Lightning 2.6.6 with jsonargparse 4.53
    "ignore:(?s).*was deprecated in v4.49.0 and will be removed in v5.0.0:DeprecationWarning",
    "ignore:(?s).*JsonargparseDeprecationWarning per type:DeprecationWarning",
    # Lightning 2.6.6 with torch 2.13
    "ignore:.*isinstance.treespec, LeafSpec.:FutureWarning",
    "ignore:.*isinstance.treespec, LeafSpec.:DeprecationWarning",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            for line in NOISE:
                item.add_marker(pytest.mark.filterwarnings(line))


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(1)
    np.random.seed(1)
    random.seed(1)


@pytest.fixture(autouse=True)
def in_tmp_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))

"""Tests that need a GPU. ``GPU_TESTS_ON=cpu`` runs what of them a CPU can, to try the tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).parent
ON_CPU = os.environ.get("GPU_TESTS_ON") == "cpu"
WITHOUT = "there is no CUDA device: `make test-gpu` runs this on a machine with one"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if ON_CPU or torch.cuda.is_available():
        return
    for item in items:
        if FOLDER in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=WITHOUT))


@pytest.fixture
def device() -> str:
    return "cpu" if ON_CPU else "cuda"


@pytest.fixture(autouse=True)
def deterministic(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(before)

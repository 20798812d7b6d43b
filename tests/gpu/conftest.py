"""Tests that need a GPU. ``GPU_TESTS_ON=cpu`` runs what of them a CPU can, to try the tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.gpu.needed import ON_CPU


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

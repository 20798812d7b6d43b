from __future__ import annotations

import sys

import pytest

from benchmarks.measure import training_process
from tests.preloaded import executable


def test_a_process_trains_more_than_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", executable("determined"))
    with training_process("determined 0.38.1") as process:
        first = process.train("overhead", batches=20, warm_up=1)
        second = process.train("overhead", batches=20, warm_up=1)
    assert first["batches_per_second"] > 0 and second["batches_per_second"] > 0
    assert 0 < first["seconds_to_first_batch"] < 300
    assert first["peak_mib"] > 50


def test_a_training_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", executable())
    with (
        training_process("plain PyTorch") as process,
        pytest.raises(RuntimeError, match=r"(?s)plain PyTorch failed.*ended after batch 1, before"),
    ):
        process.train("overhead", batches=2, warm_up=5)

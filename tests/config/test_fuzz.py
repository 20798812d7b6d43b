"""Malformed configs: whatever is in a file, the answer is a config or a ConfigError."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from det_compat.cli import main
from tests.attacks import configs
from tests.config.samples import ALL

ROUNDS = 400


@pytest.mark.parametrize("name", ALL)
def test_mutated_configs(name: str) -> None:
    draw = random.Random(name)
    understood = sum(configs.mutated(name, draw) for _ in range(ROUNDS))
    assert 0 < understood < ROUNDS


@pytest.mark.parametrize("name", ALL)
def test_mutated_text(name: str, tmp_path: Path) -> None:
    draw = random.Random(name)
    for _ in range(ROUNDS // 4):
        configs.noisy(name, draw, tmp_path / "c.yaml")


def test_garbage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    draw = random.Random(0)
    path = tmp_path / "c.yaml"
    for size in range(60):
        path.write_bytes(draw.randbytes(size))
        assert main(["config", "explain", "--format", "json", str(path)]) == 1
    assert "Traceback" not in capsys.readouterr().err

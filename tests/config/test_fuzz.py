"""Malformed configs: whatever is in a file, the answer is a config or a ConfigError."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from det_compat.cli import main
from det_compat.config.document import ConfigError, from_mapping
from det_compat.config.keys.explain import explain
from det_compat.config.keys.table import keys
from det_compat.config.loading import load
from tests.config.samples import ALL

ROUNDS = 400
LEAVES: list[Any] = [
    None, True, False, 0, 1, -1, 2.5, 1e300, 10**30, "", "x", "a:b", "\0", "\ud800", [], {}, [None],
    [[]], {"": None}, {"type": "int"}, {"type": []}, {"batches": -1}, {"batches": {}},
    {"epochs": 1},
]  # fmt: skip


def anything(rng: random.Random, depth: int = 0) -> Any:
    if depth > 2 or rng.random() < 0.6:
        return copy.deepcopy(rng.choice(LEAVES))
    if rng.random() < 0.4:
        return [anything(rng, depth + 1) for _ in range(rng.randrange(4))]
    names = [path.split(".")[-1] for path in keys()]
    return {rng.choice(names): anything(rng, depth + 1) for _ in range(rng.randrange(4))}


def mutate(value: Any, rng: random.Random) -> Any:
    """``value`` with something in it deleted, added, replaced or moved."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        name = rng.choice(list(value))
        action = rng.randrange(5)
        if action == 0:
            del value[name]
        elif action == 1:
            value[rng.choice(list(keys())).split(".")[-1]] = anything(rng)
        elif action == 2:
            value[name] = {name: value[name]}
        else:
            value[name] = mutate(value[name], rng)
        return value
    if isinstance(value, list) and value and rng.random() < 0.5:
        value[rng.randrange(len(value))] = anything(rng)
        return value
    return anything(rng)


def is_answered(parse: Callable[[], Any]) -> bool:
    """Whether the config was understood; anything but a ConfigError passes through."""
    try:
        parse()
    except ConfigError as error:
        assert str(error) and all(p.found and p.expected for p in error.problems)
        return False
    return True


@pytest.mark.parametrize("name", ALL)
def test_mutated_configs(name: str) -> None:
    rng = random.Random(name)
    understood = 0
    for _ in range(ROUNDS):
        config = yaml.safe_load(ALL[name])
        for _ in range(rng.randrange(1, 4)):
            config = mutate(config, rng)
        understood += is_answered(lambda config=config: explain(from_mapping(config)))
    assert 0 < understood < ROUNDS


@pytest.mark.parametrize("name", ALL)
def test_mutated_text(name: str, tmp_path: Path) -> None:
    rng = random.Random(name)
    path = tmp_path / "c.yaml"
    noise = [b"\t", b":", b"- ", b"{", b"}", b"[", b"&a ", b"*a", b"!", b"'", b'"', b"\n", b"\xff",
             b"<<: ", b"---\n", b"|", b"\\", b"0x", b"%", b"\x00", b"? ", b"#",
             "é".encode()]  # fmt: skip
    for _ in range(ROUNDS // 4):
        content = bytearray(ALL[name].encode())
        for _ in range(rng.randrange(1, 6)):
            at = rng.randrange(len(content))
            content[at : at + rng.randrange(4)] = rng.choice(noise)
        path.write_bytes(content)
        is_answered(lambda: explain(load(path)))


def test_garbage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = random.Random(0)
    path = tmp_path / "c.yaml"
    for size in range(60):
        path.write_bytes(rng.randbytes(size))
        assert main(["config", "explain", "--format", "json", str(path)]) == 1
    assert "Traceback" not in capsys.readouterr().err

"""Malformed configs: whatever is in a file, the answer is a config or a ConfigError."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import yaml

from det_compat.config.document import ConfigError, from_mapping
from det_compat.config.keys.explain import explain
from det_compat.config.keys.table import keys
from det_compat.config.loading import load
from tests.config.samples import ALL

LEAVES: list[Any] = [
    None, True, False, 0, 1, -1, 2.5, 1e300, 10**30, "", "x", "a:b", "\0", "\ud800", [], {}, [None],
    [[]], {"": None}, {"type": "int"}, {"type": []}, {"batches": -1}, {"batches": {}},
    {"epochs": 1},
]  # fmt: skip
NOISE = [
    b"\t", b":", b"- ", b"{", b"}", b"[", b"&a ", b"*a", b"!", b"'", b'"', b"\n", b"\xff", b"<<: ",
    b"---\n", b"|", b"\\", b"0x", b"%", b"\x00", b"? ", b"#", "é".encode(),
]  # fmt: skip


def anything(draw: Random, depth: int = 0) -> Any:
    """A value of plain types."""
    if depth > 2 or draw.random() < 0.6:
        return copy.deepcopy(draw.choice(LEAVES))
    if draw.random() < 0.4:
        return [anything(draw, depth + 1) for _ in range(draw.randrange(4))]
    names = [path.split(".")[-1] for path in keys()]
    return {draw.choice(names): anything(draw, depth + 1) for _ in range(draw.randrange(4))}


def mutate(value: Any, draw: Random) -> Any:
    """``value`` with something in it deleted, added, replaced or moved."""
    if isinstance(value, dict) and value and draw.random() < 0.9:
        name = draw.choice(list(value))
        action = draw.randrange(5)
        if action == 0:
            del value[name]
        elif action == 1:
            value[draw.choice(list(keys())).split(".")[-1]] = anything(draw)
        elif action == 2:
            value[name] = {name: value[name]}
        else:
            value[name] = mutate(value[name], draw)
        return value
    if isinstance(value, list) and value and draw.random() < 0.5:
        value[draw.randrange(len(value))] = anything(draw)
        return value
    return anything(draw)


def is_answered(parse: Callable[[], Any]) -> bool:
    """Whether the config was understood; anything but a ConfigError passes through."""
    try:
        parse()
    except ConfigError as error:
        assert str(error) and all(p.found and p.expected for p in error.problems)
        return False
    return True


def mutated(name: str, draw: Random) -> bool:
    """Whether the sample ``name``, with a few values changed, is understood."""
    config = copy.deepcopy(_parsed(name))
    for _ in range(draw.randrange(1, 4)):
        config = mutate(config, draw)
    return is_answered(lambda: explain(from_mapping(config)))


@functools.cache
def _parsed(name: str) -> Any:
    return yaml.safe_load(ALL[name])


def noisy(name: str, draw: Random, path: Path) -> bool:
    """Whether the text of the sample ``name``, with noise in it, is understood."""
    content = bytearray(ALL[name].encode())
    for _ in range(draw.randrange(1, 6)):
        at = draw.randrange(len(content))
        content[at : at + draw.randrange(4)] = draw.choice(NOISE)
    path.write_bytes(content)
    return is_answered(lambda: explain(load(path)))


def attack(draw: Random, folder: Path) -> None:
    """One malformed config."""
    name = draw.choice(list(ALL))
    if draw.random() < 0.5:
        mutated(name, draw)
    else:
        noisy(name, draw, folder / "c.yaml")

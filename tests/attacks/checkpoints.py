"""Damaged and hostile checkpoints: they are read, or refused by name; nothing in them is run."""

from __future__ import annotations

import contextlib
import json
import pickle
import signal
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import torch

from det_compat.checkpoint import read_checkpoint, to_lightning_checkpoint
from det_compat.checkpoint.export import export
from det_compat.checkpoint.show import describe
from det_compat.errors import InvalidCheckpointException
from tests.attacks.configs import anything
from tests.checkpoint.makers import Evil, of_0_12, of_0_38, state

SECONDS = 30
_READ: tuple[Callable[[Path], Any], ...] = (
    describe,
    read_checkpoint,
    lambda path: to_lightning_checkpoint(read_checkpoint(path)),
    lambda path: export(path, path.parent / "out.pt", force=True),
)


def attack(draw: Random, folder: Path) -> None:
    """One checkpoint, damaged in one way, is read by all readers."""
    path = draw.choice((of_0_12, of_0_38))(folder / "checkpoint")
    damage = draw.choice((_flipped, _cut, _without, _json_changed, _state_changed, _hostile))
    damage(draw, path)
    for read in _READ:
        with _limited(f"{damage.__name__} {read}"), contextlib.suppress(InvalidCheckpointException):
            read(path)
    assert not (folder / "executed").exists(), f"{damage.__name__}: code in it was run"


@contextlib.contextmanager
def _limited(what: str) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise AssertionError(f"{what} took more than {SECONDS} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _file(draw: Random, path: Path) -> Path:
    return draw.choice(sorted(file for file in path.rglob("*") if file.is_file()))


def _flipped(draw: Random, path: Path) -> None:
    file = _file(draw, path)
    content = bytearray(file.read_bytes() or b"\0")
    for _ in range(draw.choice((1, 5, 100))):
        content[draw.randrange(len(content))] = draw.randrange(256)
    file.write_bytes(content)


def _cut(draw: Random, path: Path) -> None:
    file = _file(draw, path)
    content = file.read_bytes()
    file.write_bytes(content[: draw.randrange(len(content) + 1)])


def _without(draw: Random, path: Path) -> None:
    _file(draw, path).unlink()


def _json_changed(draw: Random, path: Path) -> None:
    files = sorted(path.glob("*.json"))
    if files:
        file = draw.choice(files)
        content = json.loads(file.read_bytes())
        content[draw.choice(list(content))] = anything(draw)
        file.write_text(json.dumps(content))


def _state_changed(draw: Random, path: Path) -> None:
    """Something in the state is of another type, shared without end, or missing."""
    content = state()
    at: Any = content
    while True:
        keys = list(at) if isinstance(at, dict) else list(range(len(at)))
        key = draw.choice(keys)
        inner = at[key]
        if not isinstance(inner, (dict, list)) or not inner or draw.random() < 0.4:
            break
        at = inner
    shared: Any = [content["models_state_dict"]]
    for _ in range(50):
        shared = [shared, shared]
    huge = torch.zeros(1).expand(10**11)
    at[key] = draw.choice((anything(draw), shared, at, huge, torch.ones(2), 10**40, {1: {2: 3}}))
    torch.save(content, path / "state_dict.pth")


def _hostile(draw: Random, path: Path) -> None:
    """Code is hidden in a file that the checkpoint has, in one of the forms that torch reads."""
    evil = Evil(path.parent / "executed")
    pickles = sorted(path.glob("*.pkl"))
    form = draw.randrange(4 if pickles else 3)
    if form == 3:
        draw.choice(pickles).write_bytes(pickle.dumps({"trial_id": evil}))
    elif form == 2:
        with zipfile.ZipFile(path / "state_dict.pth", "w") as archive:
            for name in ("a/data.pkl", "b/data.pkl"):
                archive.writestr(name, pickle.dumps(evil, protocol=2))
    else:
        content = {**state(), draw.choice(("callbacks", "mine", "rng_state")): evil}
        torch.save(content, path / "state_dict.pth", _use_new_zipfile_serialization=form == 1)

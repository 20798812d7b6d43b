from __future__ import annotations

import inspect
from typing import Any

import pytest

from det_compat.pytorch.callback import PyTorchCallback


def hooks(cls: type[Any]) -> dict[str, list[str]]:
    return {
        name: list(inspect.signature(member).parameters)
        for name, member in vars(cls).items()
        if inspect.isfunction(member)
    }


def test_has_the_hooks_of_determined_with_their_arguments() -> None:
    theirs = pytest.importorskip("determined.pytorch").PyTorchCallback
    assert hooks(PyTorchCallback) == hooks(theirs)


def test_hooks_do_nothing() -> None:
    callback = PyTorchCallback()
    for name, (_, *parameters) in hooks(PyTorchCallback).items():
        result = getattr(callback, name)(*[None for _ in parameters])
        assert result == ({} if name == "state_dict" else None)
    assert vars(callback) == {}

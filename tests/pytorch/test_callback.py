from __future__ import annotations

import inspect
from typing import Any

import pytest
import torch

from det_compat.pytorch.callback import ClipGradsL2Norm, ClipGradsL2Value, PyTorchCallback


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


@pytest.mark.parametrize(
    ("callback", "expected"),
    [
        (ClipGradsL2Norm(1.0), [0.6, 0.8]),
        (ClipGradsL2Norm(10.0), [3.0, 4.0]),
        (ClipGradsL2Value(3.5), [3.0, 3.5]),
        (ClipGradsL2Value(clip_value=1.0), [1.0, 1.0]),
    ],
)
@pytest.mark.parametrize("kind", [list, iter])
def test_gradients_are_clipped(
    callback: PyTorchCallback, expected: list[float], kind: type
) -> None:
    parameters = [torch.nn.Parameter(torch.zeros(1)) for _ in range(2)]
    for parameter, gradient in zip(parameters, (3.0, 4.0), strict=True):
        parameter.grad = torch.tensor([gradient])
    callback.on_before_optimizer_step(kind(parameters))
    assert [p.grad.item() for p in parameters if p.grad is not None] == pytest.approx(expected)

from __future__ import annotations

import pytest
import torch

from det_compat.pytorch import ClipGradsL2Norm, ClipGradsL2Value, PyTorchCallback


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
    callback.on_before_optimizer_step(kind(parameters))  # type: ignore[attr-defined]
    assert [p.grad.item() for p in parameters if p.grad is not None] == pytest.approx(expected)

from __future__ import annotations

import torch
from torch import nn

from det_compat.pytorch import reset_parameters


def test_every_module_is_reset_in_order() -> None:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Sequential(nn.Linear(3, 1)))
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    torch.manual_seed(1)
    reset_parameters(model)
    torch.manual_seed(1)
    expected = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Sequential(nn.Linear(3, 1)))
    for ours, theirs in zip(model.parameters(), expected.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_a_module_may_have_something_else_of_that_name() -> None:
    model = nn.Linear(1, 1)
    model.reset_parameters = False  # type: ignore[assignment]
    before = model.weight.clone()
    reset_parameters(model)
    assert torch.equal(model.weight, before)

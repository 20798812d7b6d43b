from __future__ import annotations

import pytest
import torch

from det_compat.adapters.verify.lightning_adapter import _configured, _frozen

A, B = (torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1) for _ in range(2))
S = torch.optim.lr_scheduler.StepLR(A, 1)


@pytest.mark.parametrize(
    ("made", "optimizers", "schedulers"),
    [
        (A, [A], []),
        ([A, B], [A, B], []),
        ((A, B), [A, B], []),
        (([A, B], []), [A, B], []),
        (([A], [S]), [A], [{"scheduler": S}]),
        (
            ([A], [{"scheduler": S, "interval": "step"}]),
            [A],
            [{"scheduler": S, "interval": "step"}],
        ),
        ({"optimizer": A}, [A], []),
        ({"optimizer": A, "lr_scheduler": S}, [A], [{"scheduler": S}]),
        ([{"optimizer": A, "lr_scheduler": S}, {"optimizer": B}], [A, B], [{"scheduler": S}]),
    ],
)
def test_what_a_module_configures_is_understood(made, optimizers, schedulers):
    assert _configured(made) == (optimizers, schedulers)


def test_what_another_optimizer_trains_is_frozen_for_a_step():
    (one,), (two,) = (each.param_groups[0]["params"] for each in (A, B))
    assert [id(parameter) for parameter in _frozen([A, B], A)] == [id(two)]
    assert (one.requires_grad, two.requires_grad) == (True, False)
    two.requires_grad = True

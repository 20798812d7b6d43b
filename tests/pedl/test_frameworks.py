"""The names of ``pedl.frameworks.pytorch``."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from det_compat import pytorch
from det_compat.pedl.frameworks.pytorch import PyTorchTrial, Reducer, data, reset_parameters, util


def test_data_and_reducers_are_those_of_the_context_api() -> None:
    assert data.DataLoader is pytorch.DataLoader
    assert data.TorchData is pytorch.TorchData
    assert Reducer is pytorch.Reducer


def test_the_base_class_takes_hparams_and_asks_for_nothing() -> None:
    for trial in (PyTorchTrial(), PyTorchTrial({"lr": 1})):
        assert trial.create_lr_scheduler(None) is None
        assert trial.build_callbacks() == {}
        assert trial.evaluation_reducer() is Reducer.AVG


def test_error_rate_is_the_share_of_wrong_rows() -> None:
    predictions = torch.tensor([[1.0, 0.0], [0.0, 1.0], [2.0, 1.0], [5.0, 4.0]])
    rate = util.error_rate(predictions, torch.tensor([0, 1, 1, 0]))
    assert rate.shape == () and rate.item() == 0.25


@pytest.mark.parametrize("shapes", [((4,), (4,)), ((4, 2), (3,)), ((4, 2), (4, 1))])
def test_error_rate_refuses_what_does_not_fit(shapes: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(ValueError, match=r"\[N, C\] and labels of shape \[N\], got \[4"):
        util.error_rate(*(torch.zeros(shape) for shape in shapes))


def test_reset_parameters_draws_weights_as_building_did() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Sequential(nn.BatchNorm1d(2)))
    drawn = model[0].weight.clone()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(7)
    torch.manual_seed(0)
    reset_parameters(model)
    assert torch.equal(model[0].weight, drawn)
    assert model[2][0].weight.tolist() == [1, 1]

from __future__ import annotations

from typing import Any

import pytest
from torch import nn

from det_compat.pytorch.checkpoint_file import load_weights


def model(weight: float) -> nn.Module:
    linear = nn.Linear(1, 1, bias=False)
    nn.init.constant_(linear.weight, weight)
    return linear


class Distributed(nn.Module):
    """State names as DistributedDataParallel has them."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module


@pytest.mark.parametrize("saved", [nn.Sequential, Distributed], ids=["single", "distributed"])
@pytest.mark.parametrize("wanted", [nn.Sequential, Distributed], ids=["single", "distributed"])
def test_weights_of_single_and_distributed_models(saved: Any, wanted: Any) -> None:
    def state_of(kind: Any, inner: nn.Module) -> nn.Module:
        return inner if kind is nn.Sequential else Distributed(inner)

    target = model(0.0)
    state = {"models_state_dict": [state_of(saved, model(7.0)).state_dict()]}
    load_weights([state_of(wanted, target)], state)
    assert next(target.parameters()).item() == 7


def test_a_model_whose_own_part_is_named_module() -> None:
    target = Distributed(model(0.0))
    load_weights([target], {"models_state_dict": [Distributed(model(3.0)).state_dict()]})
    assert next(target.parameters()).item() == 3


def test_models_without_state() -> None:
    load_weights([nn.MSELoss()], {"models_state_dict": [{}]})


def test_files_of_one_model() -> None:
    target = model(0.0)
    load_weights([target], {"model_state_dict": model(2.0).state_dict()})
    assert next(target.parameters()).item() == 2


def test_another_number_of_models() -> None:
    with pytest.raises(ValueError, match="checkpoint has 1 models, the trial has 2"):
        load_weights([model(0.0), model(0.0)], {"models_state_dict": [model(1.0).state_dict()]})


def test_other_weights_are_torchs_error() -> None:
    with pytest.raises(RuntimeError, match="size mismatch"):
        load_weights([model(0.0)], {"models_state_dict": [nn.Linear(2, 1).state_dict()]})

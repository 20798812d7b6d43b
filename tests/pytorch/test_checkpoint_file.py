from __future__ import annotations

import os
import pickle
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from det_compat.pytorch._checkpoint_file import load_state_dict_file, load_weights

REAL = Path(__file__).parents[3] / "shared" / "checkpoints"


def test_random_state_is_read(tmp_path: Path) -> None:
    state = {"np": np.random.get_state(), "random": random.getstate(), "cpu": torch.zeros(2)}
    torch.save(state, tmp_path / "state_dict.pth")
    loaded = load_state_dict_file(tmp_path / "state_dict.pth")
    assert np.array_equal(loaded["np"][1], state["np"][1])
    assert loaded["random"] == state["random"]
    np.random.set_state(loaded["np"])


@pytest.mark.parametrize("kind", ["uint32", "int64", "float32", "float64", "bool"])
def test_arrays_are_read(tmp_path: Path, kind: str) -> None:
    torch.save({"array": np.ones(3, dtype=kind)}, tmp_path / "x")
    assert load_state_dict_file(tmp_path / "x")["array"].dtype == kind


class Evil:
    def __reduce__(self) -> Any:
        return os.mkdir, ("made",)


def test_code_in_the_file_is_not_run(tmp_path: Path) -> None:
    torch.save({"callbacks": Evil()}, tmp_path / "state_dict.pth")
    with pytest.raises(pickle.UnpicklingError):
        load_state_dict_file(tmp_path / "state_dict.pth")
    assert not Path("made").exists()


def test_arguments_of_torch_load(tmp_path: Path) -> None:
    torch.save({"x": torch.ones(1), "callbacks": Evil()}, tmp_path / "x")
    loaded = load_state_dict_file(tmp_path / "x", weights_only=False, map_location="meta")
    assert loaded["x"].device.type == "meta"
    assert Path("made").exists()


@pytest.mark.parametrize("version", ["0.13.13-pytorch-old", "0.17.6-pytorch", "0.21.0-pytorch"])
def test_files_of_old_versions_are_read(version: str) -> None:
    file = REAL / version / "state_dict.pth"
    if not file.exists():
        pytest.skip(f"no {file}")
    loaded = load_state_dict_file(file)
    assert loaded["models_state_dict"][0]["weight"].shape == (1, 1)
    assert set(loaded["rng_state"]) == {"cpu_rng_state", "np_rng_state", "random_rng_state"}


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


@pytest.mark.parametrize(
    "value",
    [np.float64(0.5), np.float32(0.5), np.int32(3), np.arange(3, dtype="int16"), np.array(["a"])],
    ids=lambda value: str(value.dtype),
)
def test_a_callback_may_keep_numpys_values(tmp_path: Path, value: Any) -> None:
    torch.save({"callbacks": {"best": value}}, tmp_path / "state_dict.pth")
    loaded = load_state_dict_file(tmp_path / "state_dict.pth")["callbacks"]["best"]
    assert type(loaded) is type(value)
    assert np.array_equal(loaded, value)


def test_objects_in_an_array_are_refused(tmp_path: Path) -> None:
    torch.save({"callbacks": np.array([object()], dtype=object)}, tmp_path / "state_dict.pth")
    with pytest.raises(pickle.UnpicklingError):
        load_state_dict_file(tmp_path / "state_dict.pth")

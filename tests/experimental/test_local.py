from __future__ import annotations

import importlib
import os
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from det_compat import experimental, pytorch
from det_compat.errors import InvalidExperimentException, NotSupportedError
from det_compat.experimental import local
from tests.pytorch.libraries import NAMES, library, wrapped

CONFIG = {"hyperparameters": {"global_batch_size": 2}, "searcher": {"metric": "loss"}}


def trial_of(api: Any) -> Any:
    """A trial class of one library, which keeps what it was asked."""

    class OneWeight(api.PyTorchTrial):
        last: Any = None

        def __init__(self, context: Any) -> None:
            type(self).last = self
            self.context = context
            self.calls: list[str] = []
            self.model, self.optimizer = wrapped(context)

        def build_training_data_loader(self) -> Any:
            batch_size = self.context.get_per_slot_batch_size()
            return api.DataLoader(torch.arange(8.0).reshape(8, 1), batch_size=batch_size)

        build_validation_data_loader = build_training_data_loader

        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
            self.calls.append(f"train {batch_idx}")
            loss = self.model(batch).sum()
            self.context.backward(loss)
            self.context.step_optimizer(self.optimizer)
            return {"loss": loss}

        def evaluate_batch(self, batch: Any) -> dict[str, Any]:
            self.calls.append("evaluate")
            return {"loss": self.model(batch).sum()}

    return OneWeight


@pytest.fixture(autouse=True)
def _in_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(local, "set_logger", lambda debug_enabled: None)


@pytest.mark.parametrize("name", NAMES)
def test_one_batch_is_trained_validated_and_saved(name: str, tmp_path: Path) -> None:
    lib = library(name)
    trial_class = trial_of(lib.pytorch)
    with warnings.catch_warnings():
        if name == "determined":
            # Its client, which is imported, and what that imports warn of themselves.
            warnings.simplefilter("ignore")
        importlib.import_module(f"{name}.experimental").test_one_batch(trial_class, CONFIG)
    trial = trial_class.last
    assert trial.calls == ["train 0", "evaluate"]
    assert trial.model.weight.item() == 0.0  # 1, and a gradient of 0 + 1
    assert trial.context.get_experiment_config() == {**CONFIG, "scheduling_unit": 1}
    assert len([*tmp_path.rglob("state_dict.pth")]) == 1


def test_hyperparameters_that_are_searched_get_values() -> None:
    ranges = {
        "global_batch_size": {"type": "const", "val": 4},
        "rate": {"type": "log", "base": 10, "minval": -3, "maxval": -3},
    }
    trial_class = trial_of(pytorch)
    experimental.test_one_batch(trial_class, {"hyperparameters": ranges})
    context = trial_class.last.context
    assert context.get_hparams() == {"global_batch_size": 4, "rate": 1e-3}


def test_an_older_trial_is_tried_and_made_as_it_is() -> None:
    losses: list[float] = []

    class Old(pytorch.PyTorchTrial):
        def __init__(self, context: Any) -> None:
            self.context = context

        def build_model(self) -> Any:
            return torch.nn.Linear(1, 1)

        def optimizer(self, model: Any) -> Any:
            return torch.optim.SGD(model.parameters(), lr=0.1)

        def build_training_data_loader(self) -> Any:
            return pytorch.DataLoader(torch.ones(4, 1), batch_size=2)

        build_validation_data_loader = build_training_data_loader

        def train_batch(self, batch: Any, model: Any, epoch_idx: int, batch_idx: int) -> Any:
            loss = model(batch).sum()
            losses.append(loss.item())
            return {"loss": loss}

        def evaluate_batch(self, batch: Any, model: Any) -> Any:
            return {"loss": model(batch).sum()}

    experimental.test_one_batch(Old, CONFIG)
    assert len(losses) == 1
    with pytest.warns(FutureWarning, match="from_config"):
        made = experimental.create_trial_instance(Old, "unused", CONFIG, hparams={"x": 1})
    assert type(made) is Old
    assert made.context.get_hparams() == {"x": 1}


def test_create_tries_a_trial_in_its_folder(tmp_path: Path) -> None:
    seen = []

    class Trial(trial_of(pytorch)):
        def __init__(self, context: Any) -> None:
            super().__init__(context)
            seen.append((Path.cwd(), sys.path[0]))

    before = os.getcwd(), sys.path[0]
    experimental.create(Trial, CONFIG, local=True, test=True, context_dir=str(tmp_path))
    assert seen == [(tmp_path, "")]
    assert (os.getcwd(), sys.path[0]) == before


def test_create_needs_no_cluster() -> None:
    with pytest.raises(NotSupportedError, match=r"det_compat\.fit\(config, model_dir\)"):
        experimental.create(trial_of(pytorch), CONFIG)
    with pytest.raises(NotImplementedError, match=r"det_compat\.fit\(config, model_dir\)"):
        experimental.create(trial_of(pytorch), CONFIG, local=True)


def test_a_trial_that_exits_says_so(tmp_path: Path) -> None:
    with (
        pytest.raises(InvalidExperimentException, match=r"sys\.exit\(\)"),
        local.local_execution_manager(tmp_path),
    ):
        sys.exit(3)

from __future__ import annotations

import random
from typing import Any

import pytest

from det_compat.pytorch import PyTorchTrialContext
from det_compat.pytorch.context import debugging
from tests.adapters.trials import Linear

CONFIG: dict[str, Any] = {
    "hyperparameters": {
        "global_batch_size": 4,
        "lr": {"type": "log", "base": 10, "minval": -3, "maxval": -1},
        "nested": {"width": {"type": "int", "minval": 1, "maxval": 9}, "act": "relu"},
        "drop": {"type": "double", "minval": 0, "maxval": 1},
        "kind": {"type": "categorical", "vals": ["a", "b"]},
        "fixed": {"type": "const", "val": 3},
    },
    "data": {"path": "/data"},
    "reproducibility": {"experiment_seed": 7},
    "resources": {"slots_per_trial": 8},
}


def test_a_trial_is_built_and_called_by_hand() -> None:
    context = PyTorchTrialContext.from_config(CONFIG)
    assert context.get_data_config() == {"path": "/data"} and context.get_trial_seed() == 7
    assert context.get_per_slot_batch_size() == 4 and context.get_hparam("fixed") == 3
    assert context.get_experiment_config()["searcher"]["max_length"] == {"batches": 100}
    trial = Linear(context)
    batch = next(iter(trial.build_training_data_loader().get_data_loader()))
    assert trial.train_batch(batch, epoch_idx=0, batch_idx=0)


def test_hyperparameters_are_drawn_as_determined_drew_them() -> None:
    execution = pytest.importorskip("determined._execution")
    random.seed(5)
    theirs = execution._generate_random_hparam_values(CONFIG["hyperparameters"])
    random.seed(5)
    assert debugging.arguments(CONFIG)["hparams"] == theirs


def test_a_type_that_there_is_not_is_named() -> None:
    with pytest.raises(ValueError, match=r"'lr' has the type 'gauss'"):
        debugging.arguments({"hyperparameters": {"lr": {"type": "gauss"}}})

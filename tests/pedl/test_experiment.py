"""Scripts that end in ``pedl.Experiment(...).create()``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from det_compat.errors import InvalidExperimentException
from det_compat.pedl import Constant, Experiment
from det_compat.pedl import experiment as _experiment
from tests.preloaded import python

SCRIPT = """
import argparse
import pathlib

import torch
from torch import nn

import pedl
from pedl.frameworks.pytorch import LRScheduler, PyTorchTrial
from pedl.frameworks.pytorch.data import DataLoader


class Once:
    __instance = None

    @staticmethod
    def get():
        if Once.__instance is None:
            x = torch.arange(24.0).reshape(12, 2) / 24
            Once.__instance = torch.utils.data.TensorDataset(x, x.sum(1))
        return Once.__instance


class Noted(torch.utils.data.Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, index):
        assert pedl.get_hyperparameter("width") == 3
        return Once.get()[index]


def make_data_loaders(experiment_config, hparams):
    assert hparams == {"batch_size": 4, "lr": 0.1, "width": 3}
    workers = {"num_workers": 1, "multiprocessing_context": "spawn"}
    return (
        DataLoader(Noted(), batch_size=opt.batch_size, shuffle=True, **workers),
        DataLoader(Once.get(), batch_size=opt.batch_size * 2),
    )


class Trial(PyTorchTrial):
    def build_model(self):
        model = nn.Sequential(nn.Linear(2, pedl.get_hyperparameter("width")), nn.Linear(3, 1))
        model.rows = len(Once.get())
        return model

    def optimizer(self, model):
        return torch.optim.Adam(model.parameters(), lr=hyp["lr0"])

    def train_batch(self, batch, model, epoch_idx, batch_idx):
        x, y = batch
        loss = ((model(x).squeeze(1) - y) ** 2).mean() * (opt.batch_size / 4)
        return {"loss": loss}

    def evaluate_full_dataset(self, data_loader, model):
        errors = [(model(x).squeeze(1) - y).abs().sum() for x, y in data_loader]
        return {"mae": float(sum(errors)) / model.rows}


if __name__ == "__main__":
    opt = argparse.Namespace(batch_size=16)
    hyp = {"lr0": 1.0}
    opt.batch_size = pedl.Constant(value=4, name="batch_size")
    hyp["lr0"] = pedl.Constant(value=0.1, name="lr")
    config = {
        "searcher": {"name": "single", "metric": "mae", "max_steps": int(opt.batch_size / 2)},
        "hyperparameters": {"width": {"type": "const", "val": 3}},
        "bind_mounts": [{"host_path": "/data", "container_path": "data"}],
        "batches_per_step": 5,
        "min_validation_period": 1,
        "optimizations": {"aggregation_frequency": 2},
        "reproducibility": {"experiment_seed": 3},
        "resources": {"slots_per_trial": 1},
    }
    exp = pedl.Experiment(
        context_directory=str(pathlib.Path.cwd()),
        trial_def=Trial,
        make_data_loaders_fn=make_data_loaders,
        configuration=config,
    )
    exp.create()
    print("created", opt.batch_size * 2)
"""


def run(tmp_path: Path, name: str) -> Any:
    (tmp_path / "pedl_train.py").write_text(SCRIPT)
    working = tmp_path / name
    working.mkdir()
    command = ["-m", "det_compat", "run", str(tmp_path / "pedl_train.py")]
    return python(*command, cwd=working)


def test_a_script_creates_and_trains_its_experiment(tmp_path: Path) -> None:
    done = run(tmp_path, "first")
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("created 8\n")
    reports = [line for line in done.stderr.splitlines() if "_metrics(" in line]
    assert [line.partition("report_")[2].partition("metrics=")[0] for line in reports] == [
        "training_metrics(steps_completed=5, ",
        "validation_metrics(steps_completed=5, ",
        "training_metrics(steps_completed=10, ",
        "validation_metrics(steps_completed=10, ",
    ]
    # the same seed, the same numbers
    again = [line for line in run(tmp_path, "again").stderr.splitlines() if "_metrics(" in line]
    assert [line.partition("report_")[2] for line in reports] == [
        line.partition("report_")[2] for line in again
    ]


def test_a_constant_is_its_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_experiment, "_constants", {})
    value = [1]
    assert Constant(value=value, name="list") is value
    assert Constant(True) is True
    assert _experiment._constants == {"list": [1]}


@pytest.mark.parametrize("kind", ["int", "double", "log", "categorical"])
def test_hyperparameters_to_be_searched_are_refused(kind: str) -> None:
    conf = {"hyperparameters": {"lr": {"type": kind}}, "searcher": {"max_steps": 1}}
    with pytest.raises(InvalidExperimentException, match=f"'lr' is to be searched .type '{kind}'"):
        Experiment(trial_def=object, configuration=conf).create()

"""A small project: a trial class of Determined, with a config, in a folder of its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

MODEL_DEF = """
import json
import os
import pathlib
import torch
from determined.pytorch import DataLoader, PyTorchCallback, PyTorchTrial


class Record(PyTorchCallback):
    def __init__(self, trial):
        self.trial = trial

    def write(self, what):
        with open(os.environ.get("RECORD", "record.txt"), "a") as file:
            print(json.dumps([what, self.trial.batches]), file=file)

    def on_validation_start(self):
        self.write("validation")

    def on_checkpoint_save_start(self, checkpoint):
        self.write("checkpoint")

    def on_training_workload_end(self, avg_metrics, batch_metrics):
        self.write("report")

    def state_dict(self):
        return {"batches": self.trial.batches}

    def load_state_dict(self, state):
        self.trial.batches = state["batches"]


class Trial(PyTorchTrial):
    def __init__(self, context):
        self.context = context
        self.batches = 0
        self.record = Record(self)
        self.model = context.wrap_model(torch.nn.Linear(2, 1))
        lr = context.get_hparams().get("lr", 0.01)
        self.optimizer = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=lr))

    def build_training_data_loader(self):
        data = torch.arange(80.0).view(40, 2) / 80
        size = self.context.get_per_slot_batch_size()
        return DataLoader(data, batch_size=size, shuffle=True)

    def build_validation_data_loader(self):
        return DataLoader(torch.ones(8, 2), batch_size=4)

    def build_callbacks(self):
        return {"record": self.record}

    def train_batch(self, batch, epoch_idx, batch_idx):
        self.batches += 1
        crash = os.environ.get("CRASH_AT")
        if crash and batch_idx + 1 == int(crash) and not pathlib.Path("crashed").exists():
            pathlib.Path("crashed").touch()
            raise RuntimeError("the trial's own error")
        loss = (self.model(batch) - 1).pow(2).mean()
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch):
        return {"validation_loss": self.model(batch).pow(2).mean()}
"""

CONFIG: dict[str, Any] = {
    "name": "tiny",
    "entrypoint": "model_def:Trial",
    "hyperparameters": {"global_batch_size": 4, "lr": 0.1},
    "searcher": {"name": "single", "metric": "validation_loss", "max_length": {"epochs": 2}},
    "resources": {"slots_per_trial": 0},
    "reproducibility": {"experiment_seed": 7},
    "max_restarts": 0,
}

#: Batches in an epoch of the trial with the batch size of CONFIG.
EPOCH = 10

QUIET = ("--trainer.enable_progress_bar", "false")


def project(folder: Path, **keys: Any) -> Path:
    """A project in ``folder``; its config, with ``keys`` in place of those of CONFIG."""
    folder.mkdir(exist_ok=True)
    (folder / "model_def.py").write_text(MODEL_DEF)
    return config(folder, **keys)


def config(folder: Path, **keys: Any) -> Path:
    """The config of a project."""
    file = folder / "const.yaml"
    file.write_text(yaml.safe_dump({**CONFIG, **keys}))
    return file


def recorded(folder: Path) -> dict[str, list[int]]:
    """What the trial's callback has seen: batch counts of each kind of event."""
    seen: dict[str, list[int]] = {"validation": [], "checkpoint": [], "report": []}
    for line in (folder / "record.txt").read_text().splitlines():
        what, batches = json.loads(line)
        seen[what].append(batches)
    return seen

"""A small project whose runs are attacked: a trial with state of every kind, and its config."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

#: The training loader is of a data set with a length, of one without, or no Determined loader.
DATA = ("sized", "iterable", "plain")
BATCHES = 24

_MODEL_DEF = """
import os
import pathlib
import resource
import time

import torch
from determined import pytorch
from torch.utils.data import DataLoader, IterableDataset


class Stream(IterableDataset):
    def __iter__(self):
        for number in range(40):
            yield torch.full((4,), number / 40)


class Trial(pytorch.PyTorchTrial):
    def __init__(self, context):
        self.context = context
        self.model = context.wrap_model(
            torch.nn.Sequential(
                torch.nn.Linear(4, 512), torch.nn.Dropout(0.2), torch.nn.Linear(512, 1)
            )
        )
        self.optimizer = context.wrap_optimizer(torch.optim.Adam(self.model.parameters()))
        self.scheduler = context.wrap_lr_scheduler(
            torch.optim.lr_scheduler.StepLR(self.optimizer, 5),
            pytorch.LRScheduler.StepMode.STEP_EVERY_BATCH,
        )
        if "ATTACK_BYTES" in os.environ:
            limit = int(os.environ["ATTACK_BYTES"])
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
        if context.distributed.get_size() == 1:
            self.say_pid()

    has_said = False

    def say_pid(self):
        # of several ranks, the last counts
        pathlib.Path(os.environ["ATTACK_STARTED"]).write_text(str(os.getpid()))

    def build_training_data_loader(self):
        size, kind = self.context.get_per_slot_batch_size(), self.context.get_hparam("data")
        if kind == "iterable":
            self.context.experimental.disable_dataset_reproducibility_checks()
            return DataLoader(Stream(), batch_size=size)
        data = torch.arange(160.0).view(40, 4) / 160
        if kind == "sized":
            return pytorch.DataLoader(
                data, batch_size=size, shuffle=True, num_workers=self.context.get_hparam("workers")
            )
        self.context.experimental.disable_dataset_reproducibility_checks()
        return DataLoader(data, batch_size=size, shuffle=True)

    def build_validation_data_loader(self):
        return pytorch.DataLoader(torch.ones(8, 4), batch_size=4)

    def train_batch(self, batch, epoch_idx, batch_idx):
        time.sleep(float(os.environ.get("ATTACK_SECONDS", 0)))
        if self.context.distributed.get_size() > 1 and not self.has_said:
            self.say_pid()
            self.has_said = True
        loss = self.model(batch).square().mean()
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch):
        return {"score": self.model(batch).mean()}
"""


def write(
    folder: Path,
    data: str,
    *,
    workers: int = 0,
    max_restarts: int = 0,
    ranks: int = 1,
    **keys: Any,
) -> None:
    """Write the project into ``folder``, which is made; its config has these ``keys``, too."""
    folder.mkdir(parents=True)
    config: dict[str, Any] = {
        "name": "attacked",
        "entrypoint": "model_def:Trial",
        "hyperparameters": {"global_batch_size": 4, "data": data, "workers": workers},
        "records_per_epoch": 40,
        "searcher": {"name": "single", "metric": "score", "max_length": {"batches": BATCHES}},
        "min_checkpoint_period": {"batches": 5},
        "min_validation_period": {"batches": 7},
        "scheduling_unit": 3,
        "max_restarts": max_restarts,
        "resources": {"slots_per_trial": ranks},
        "reproducibility": {"experiment_seed": 7},
        **keys,
    }
    (folder / "model_def.py").write_text(_MODEL_DEF)
    (folder / "const.yaml").write_text(json.dumps(config))

"""A trial that trains in moments, and its experiment config, for searches that really train."""

from __future__ import annotations

from pathlib import Path

MODEL_DEF = """
import time
import determined as det
import torch
from determined.pytorch import DataLoader, PyTorchTrial

class TinyTrial(PyTorchTrial):
    def __init__(self, context):
        self.context = context
        if context.get_hparam("net")["lr"] < 0:
            raise det.InvalidHP("negative")
        self.model = context.wrap_model(torch.nn.Linear(2, 1))
        self.optimizer = context.wrap_optimizer(
            torch.optim.SGD(self.model.parameters(), lr=context.get_hparam("net")["lr"]))

    def build_training_data_loader(self):
        x = torch.randn(32, 2, generator=torch.Generator().manual_seed(0))
        return DataLoader(torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True)), batch_size=4)

    build_validation_data_loader = build_training_data_loader

    def train_batch(self, batch, epoch_idx, batch_idx):
        time.sleep(self.context.get_hparam("seconds"))
        loss = torch.nn.functional.mse_loss(self.model(batch[0]), batch[1])
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch):
        return {"error": torch.nn.functional.mse_loss(self.model(batch[0]), batch[1])}
"""

CONFIG = """
name: tiny
entrypoint: model_def:TinyTrial
hyperparameters:
  global_batch_size: 4
  seconds: {seconds}
  api_key: SECRET-HPARAM
  net:
    lr: {{type: log, base: 10, minval: -3, maxval: -1}}
searcher:
  name: {searcher}
  metric: error
  max_length: {{epochs: 4}}
  max_trials: {trials}
  max_concurrent_trials: 2
min_validation_period: {{epochs: 1}}
reproducibility: {{experiment_seed: 5}}
data: {{secret_key: SECRET-TEXT}}
environment: {{environment_variables: [KEY=SECRET-TEXT]}}
resources: {{slots_per_trial: {slots}}}
max_restarts: 0
"""


def write_project(
    folder: Path,
    *,
    searcher: str = "random",
    trials: int = 3,
    seconds: float = 0.0,
    slots: int = 1,
) -> Path:
    """A folder with model_def.py and search.yaml; returns the config's path."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model_def.py").write_text(MODEL_DEF)
    config = folder / "search.yaml"
    keys = {"searcher": searcher, "trials": trials, "seconds": seconds, "slots": slots}
    config.write_text(CONFIG.format(**keys))
    return config

"""The trials of older.py, rewritten for the context API by somebody who knew both."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from determined.pytorch import DataLoader, LRScheduler, PyTorchCallback
from torch import nn

from trials.base import CLASSES, FEATURES, Augmented, Classifier, rows

CLIPPING = {
    "norm": lambda parameters: torch.nn.utils.clip_grad_norm_(parameters, 0.05),
    "value": lambda parameters: torch.nn.utils.clip_grad_value_(parameters, 0.01),
}


class Net(nn.Module):
    """Draws from the random generators when it is built and when it is used."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(FEATURES, width), nn.BatchNorm1d(width), nn.ReLU())
        self.head = nn.Sequential(nn.Dropout(0.3), nn.Linear(width, CLASSES))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x))


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    """Two groups, of which names tell the parameters."""
    heads = [p for name, p in model.named_parameters() if name.startswith("head")]
    bodies = [p for name, p in model.named_parameters() if not name.startswith("head")]
    return torch.optim.Adam([{"params": heads, "lr": 0.03}, {"params": bodies}], lr=0.01)


def scheduler_of(optimizer: torch.optim.Optimizer, mode: str):
    if mode == "MANUAL_STEP":
        return torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, threshold=0.5)
    return torch.optim.lr_scheduler.StepLR(optimizer, step_size=2, gamma=0.7)


class Rewritten(Classifier):
    """The hparams ``width``, ``clip`` and ``step_mode`` say what there is."""

    def __init__(self, context) -> None:
        self.context = context
        self.seen = []
        model = Net(self.hparam("width", 8))
        if self.hparam("reset", False):
            for module in model.modules():
                if hasattr(module, "reset_parameters"):
                    module.reset_parameters()
        optimizer = optimizer_of(model)
        self.model = context.wrap_model(model)
        self.optimizer = context.wrap_optimizer(optimizer)
        self.scheduler = None
        mode = self.hparam("step_mode", None)
        if mode is not None:
            self.scheduler = context.wrap_lr_scheduler(
                scheduler_of(self.optimizer, mode), LRScheduler.StepMode[mode]
            )

    def build_training_data_loader(self) -> DataLoader:
        size = self.context.get_per_slot_batch_size()
        return DataLoader(Augmented(rows(24)), batch_size=size, shuffle=True, num_workers=0)

    def build_validation_data_loader(self) -> DataLoader:
        return DataLoader(rows(12, seed=8), batch_size=self.context.get_per_slot_batch_size())

    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = self.loss(batch)
        self.context.backward(loss)
        clip = CLIPPING.get(self.hparam("clip", None))
        self.context.step_optimizer(self.optimizer, clip_grads=clip)
        return {"loss": loss, "twice": 2 * loss}

    def build_callbacks(self):
        return {"plateau": Plateau(self)} if self.hparam("step_mode", "") == "MANUAL_STEP" else {}


class Plateau(PyTorchCallback):
    def __init__(self, trial) -> None:
        self.trial = trial

    def on_validation_end(self, metrics) -> None:
        self.trial.scheduler.step(float(metrics["validation_loss"]))


class RewrittenFullDataset(Rewritten):
    """Evaluates everything at once; what it draws shows whether one rank or all do."""

    evaluate_batch = None

    def evaluate_full_dataset(self, data_loader):
        outputs = [self.model(x) for x, _ in data_loader]
        labels = [y for _, y in data_loader]
        torch.rand(1)
        return {"validation_loss": F.cross_entropy(torch.cat(outputs), torch.cat(labels))}

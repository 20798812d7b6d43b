"""
Tells the cultivar of a wine from its chemical analysis (scikit-learn's wine data: 178 wines, 13
measurements, 3 cultivars).
"""

import determined as det
import torch
import torch.nn as nn
from determined.pytorch import (
    ClipGradsL2Norm,
    DataLoader,
    LRScheduler,
    PyTorchCallback,
    PyTorchTrial,
    Reducer,
    reset_parameters,
)
from sklearn.datasets import load_wine
from sklearn.model_selection import train_test_split
from torch.optim.lr_scheduler import OneCycleLR
from torch.utils.data import TensorDataset


class PrintMetrics(PyTorchCallback):
    def __init__(self):
        self.validations = 0

    def on_train_step_end(self, step_id, metrics):
        print("step {}: training loss {:.4f}".format(step_id, metrics["avg_metrics"]["loss"]))

    def on_validation_step_end(self, metrics):
        self.validations += 1
        accuracy = 100 * float(metrics["correct"]) / float(metrics["wines"])
        print(f"validation {self.validations}: accuracy {accuracy:.1f}%")

    def state_dict(self):
        return {"validations": self.validations}

    def load_state_dict(self, state_dict):
        self.validations = state_dict["validations"]


class WineTrial(PyTorchTrial):
    def __init__(self, context: det.TrialContext) -> None:
        self.context = context

        wine = load_wine(as_frame=False)
        train_x, val_x, train_y, val_y = train_test_split(
            wine.data, wine.target, test_size=0.3, random_state=0, stratify=wine.target
        )
        mean, std = train_x.mean(axis=0), train_x.std(axis=0)
        self.train_set = self.dataset((train_x - mean) / std, train_y)
        self.val_set = self.dataset((val_x - mean) / std, val_y)

    def dataset(self, x, y):
        return TensorDataset(torch.tensor(x, dtype=torch.float32), torch.tensor(y))

    def build_model(self) -> nn.Module:
        hidden = self.context.get_hparam("hidden_size")
        model = nn.Sequential(
            nn.Linear(13, hidden),
            nn.BatchNorm1d(hidden),
            nn.ReLU(),
            nn.Dropout(self.context.get_hparam("dropout")),
            nn.Linear(hidden, 3),
        )
        reset_parameters(model)
        return model

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(
            model.parameters(), lr=self.context.get_hparam("learning_rate"), momentum=0.9
        )

    def create_lr_scheduler(self, optimizer: torch.optim.Optimizer) -> LRScheduler:
        scheduler = OneCycleLR(
            optimizer,
            max_lr=self.context.get_hparam("learning_rate"),
            total_steps=self.context.get_hparam("total_batches"),
        )
        return LRScheduler(scheduler, step_mode=LRScheduler.StepMode.STEP_EVERY_BATCH)

    def train_batch(self, batch, model, epoch_idx, batch_idx):
        x, y = batch
        output = model(x)
        accuracy = (output.argmax(dim=1) == y).float().mean()
        return {"loss": nn.functional.cross_entropy(output, y), "accuracy": accuracy}

    def evaluate_batch(self, batch, model):
        x, y = batch
        correct = (model(x).argmax(dim=1) == y).sum()
        return {"correct": correct, "wines": len(y)}

    def evaluation_reducer(self):
        return Reducer.SUM

    def build_training_data_loader(self) -> DataLoader:
        batch_size = self.context.get_per_slot_batch_size()
        return DataLoader(self.train_set, batch_size=batch_size, shuffle=True, drop_last=True)

    def build_validation_data_loader(self) -> DataLoader:
        return DataLoader(self.val_set, batch_size=self.context.get_per_slot_batch_size())

    def build_callbacks(self):
        max_norm = self.context.get_hparam("max_gradient_norm")
        return {"clip_grads": ClipGradsL2Norm(max_norm), "print": PrintMetrics()}

"""What real trials do in their callbacks."""

from __future__ import annotations

import random

import numpy as np
import torch
from determined.pytorch import PyTorchCallback
from torch import nn

from trials.base import CLASSES, FEATURES, Classifier


class TrainsInValidation(Classifier):
    """Trains on in on_validation_start, under enable_grad."""

    def build_callbacks(self):
        trial = self

        class Tunes(PyTorchCallback):
            def on_validation_start(self):
                trial.seen.append((trial.model.training, torch.is_grad_enabled()))
                with torch.enable_grad():
                    trial.model.train()
                    for batch in iter(trial.build_training_data_loader().get_data_loader()):
                        trial.context.backward(trial.loss(batch))
                        trial.context.step_optimizer(trial.optimizer)

        return {"tunes": Tunes()}


class CallbackWithState(PyTorchCallback):
    """state_dict reads the context; the hooks draw random numbers."""

    def __init__(self, trial: Classifier) -> None:
        self.trial = trial

    def draw(self) -> None:
        self.trial.seen.append((torch.rand(1).item(), np.random.rand(), random.random()))

    def state_dict(self):
        return {"batch": self.trial.context.current_train_batch()}

    def load_state_dict(self, state_dict):
        self.on_training_start()

    def on_training_start(self):
        self.draw()

    def on_training_epoch_start(self, epoch_idx):
        self.draw()

    def on_training_epoch_end(self, epoch_idx):
        self.draw()

    def on_training_workload_end(self, avg_metrics, batch_metrics):
        self.draw()
        avg_metrics["added"] = 1.0

    def on_validation_start(self):
        self.draw()

    def on_validation_epoch_start(self):
        self.draw()

    def on_validation_epoch_end(self, outputs):
        self.draw()

    def on_validation_end(self, metrics):
        self.draw()
        metrics["added"] = 2.0

    def on_checkpoint_save_start(self, checkpoint):
        self.draw()
        checkpoint["mine"] = [1, 2]

    def on_checkpoint_write_end(self, checkpoint_dir):
        self.draw()

    def on_trial_shutdown(self):
        self.draw()


class Drawing(Classifier):
    """Random numbers in callbacks; metrics changed in callbacks; two callbacks."""

    def build_callbacks(self):
        return {"b": CallbackWithState(self), "a": CallbackWithState(self)}


class ReadsCheckpoint(Classifier):
    """Opens each checkpoint by hand."""

    def build_callbacks(self):
        trial = self

        class Reads(PyTorchCallback):
            def on_checkpoint_write_end(self, checkpoint_dir):
                trial.seen.append(trial.read(checkpoint_dir))

        return {"reads": Reads()}

    def read(self, checkpoint_dir: str) -> list:
        path = f"{checkpoint_dir}/state_dict.pth"
        checkpoint = torch.load(path, weights_only=False)
        weights = checkpoint["models_state_dict"][0]
        return [sorted(checkpoint), {name: value.clone() for name, value in weights.items()}]


class EvalMode(Classifier):
    """model.eval() in on_training_start and in train_batch."""

    def net(self) -> nn.Module:
        return nn.Sequential(
            nn.Linear(FEATURES, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, CLASSES)
        )

    def build_callbacks(self):
        trial = self

        class Freezes(PyTorchCallback):
            def on_training_start(self):
                trial.model.eval()

            def on_training_epoch_start(self, epoch_idx):
                trial.seen.append(trial.model.training)

            def on_training_workload_end(self, avg_metrics, batch_metrics):
                trial.seen.append(trial.model.training)

            def on_validation_end(self, metrics):
                trial.seen.append(trial.model.training)

        return {"freezes": Freezes()}

    def train_batch(self, batch, epoch_idx, batch_idx):
        if batch_idx == 2:
            self.model.eval()
        return super().train_batch(batch, epoch_idx, batch_idx)


class LeavesEval(EvalMode):
    """evaluate_batch puts the model into training mode: dropout draws in validation."""

    def evaluate_batch(self, batch):
        self.model.train()
        return super().evaluate_batch(batch)


class CallbacksOld(Classifier):
    """on_training_epoch_start without its parameter; the deprecated on_checkpoint_end."""

    def build_callbacks(self):
        trial = self

        class Old(PyTorchCallback):
            def on_training_epoch_start(self):
                trial.seen.append("epoch start")

            def on_checkpoint_end(self, checkpoint_dir):
                trial.seen.append("checkpoint end")

        return {"old": Old()}

"""Trials of Determined 0.12, each with the name of what it is in rewritten.py."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from determined.pytorch import (
    ClipGradsL2Norm,
    ClipGradsL2Value,
    DataLoader,
    LRScheduler,
    PyTorchCallback,
    PyTorchTrial,
    reset_parameters,
)

from trials.base import Augmented, rows
from trials.rewritten import CLIPPING, Net, optimizer_of, scheduler_of

CALLBACKS = {"norm": lambda: ClipGradsL2Norm(0.05), "value": lambda: ClipGradsL2Value(0.01)}


class Methods:
    """What all of them share."""

    def train_batch(self, batch, model, epoch_idx, batch_idx):
        x, y = batch
        loss = F.cross_entropy(model(x), y)
        return {"loss": loss, "twice": 2 * loss}

    def evaluate_batch(self, batch, model):
        x, y = batch
        output = model(x)
        accuracy = (output.argmax(1) == y).float().mean()
        return {"validation_loss": F.cross_entropy(output, y), "accuracy": accuracy}


class Rewritten(Methods, PyTorchTrial):
    def __init__(self, trial_context) -> None:
        self.context = trial_context
        self.hparams = trial_context.get_hparams()

    def build_model(self):
        model = Net(self.hparams.get("width", 8))
        if self.hparams.get("reset"):
            reset_parameters(model)
        return model

    def optimizer(self, model):
        return optimizer_of(model)

    def create_lr_scheduler(self, optimizer):
        mode = self.hparams.get("step_mode")
        if mode is None:
            return None
        scheduler = scheduler_of(optimizer, mode)
        if self.hparams.get("early"):
            every_batch, every_epoch = mode == "STEP_EVERY_BATCH", mode == "STEP_EVERY_EPOCH"
            return LRScheduler(
                scheduler, step_every_batch=every_batch, step_every_epoch=every_epoch
            )
        return LRScheduler(scheduler, step_mode=LRScheduler.StepMode[mode])

    def build_training_data_loader(self):
        size = self.context.get_per_slot_batch_size()
        return DataLoader(Augmented(rows(24)), batch_size=size, shuffle=True)

    def build_validation_data_loader(self):
        return DataLoader(rows(12, seed=8), batch_size=self.context.get_per_slot_batch_size())

    def build_callbacks(self):
        clip = CALLBACKS.get(self.hparams.get("clip"))
        callbacks = {} if clip is None else {"clip": clip()}
        if self.hparams.get("step_mode") == "MANUAL_STEP":
            callbacks["plateau"] = Plateau(self.context)
        return callbacks


class Plateau(PyTorchCallback):
    def __init__(self, context) -> None:
        self.context = context

    def on_validation_step_end(self, metrics) -> None:
        self.context.get_lr_scheduler().step(float(metrics["validation_loss"]))


class RewrittenFullDataset(Rewritten):
    evaluate_batch = None

    def evaluate_full_dataset(self, data_loader, model):
        outputs = [model(x) for x, _ in data_loader]
        labels = [y for _, y in data_loader]
        torch.rand(1)
        return {"validation_loss": F.cross_entropy(torch.cat(outputs), torch.cat(labels))}


class Earliest(Methods, PyTorchTrial):
    """Methods take hparams, and the loaders come from a function of the module."""

    def __init__(self, context) -> None:
        self.batches = 0

    def build_model(self, hparams):
        return Net(hparams.get("width", 8))

    def optimizer(self, model):
        return optimizer_of(model)

    def create_lr_scheduler(self, optimizer, hparams):
        scheduler = scheduler_of(optimizer, hparams["step_mode"])
        return LRScheduler(scheduler, step_every_epoch=True)


def make_data_loaders(experiment_config, hparams):
    size = hparams["global_batch_size"] // hparams.get("slots", 1)
    training = DataLoader(Augmented(rows(24)), batch_size=size, shuffle=True)
    return training, DataLoader(rows(12, seed=8), batch_size=size)


class Transitional(Methods, PyTorchTrial):
    """Of 0.12.12: builds and steps by itself, under names with underscores."""

    def __init__(self, context) -> None:
        self.context = context
        model = Net(8)
        optimizer = optimizer_of(model)
        context._Model(model)
        self.opt = context._Optimizer(optimizer)
        mode = context.get_hparam("step_mode")
        context._LRScheduler(scheduler_of(self.opt, mode), LRScheduler.StepMode[mode])

    build_training_data_loader = Rewritten.build_training_data_loader
    build_validation_data_loader = Rewritten.build_validation_data_loader

    def train_batch(self, batch, model, epoch_idx, batch_idx):
        x, y = self.context._to_device(batch)
        loss = F.cross_entropy(model(x), y)
        self.context._backward(loss)
        clip = CLIPPING.get(self.context.get_hparams().get("clip"))
        self.context._step_optimizer(self.context.get_optimizer(), clip)
        return {"loss": loss}

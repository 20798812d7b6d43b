"""What real trials do that their documentation does not tell."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from determined.pytorch import (
    DataLoader,
    LRScheduler,
    PyTorchCallback,
    PyTorchTrial,
    PyTorchTrialContext,
)
from torch import nn

from trials.base import CLASSES, FEATURES, Classifier, rows

MODES = LRScheduler.StepMode


class OptimizerFirst(Classifier):
    """The optimizer and its schedule are made before anything is wrapped."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        self.context = context
        net = self.net()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
        self.optimizer = context.wrap_optimizer(optimizer)
        context.wrap_lr_scheduler(scheduler, MODES.STEP_EVERY_BATCH)
        self.model = context.wrap_model(net)


class WrapsLoss(Classifier):
    """The loss, without parameters, is wrapped as a model."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        super().__init__(context)
        self.criterion = context.wrap_model(nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2, 3])))

    def loss(self, batch) -> torch.Tensor:
        x, y = batch
        return self.criterion(self.model(x), y)


class Teacher(Classifier):
    """A second model that no optimizer has, fed by an exponential moving average."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        super().__init__(context)
        self.teacher = context.wrap_model(self.net())
        self.teacher.requires_grad_(False)

    def loss(self, batch) -> torch.Tensor:
        x, y = batch
        with torch.no_grad():
            target = self.teacher(x).softmax(1)
        output = self.model(x)
        return F.cross_entropy(output, y) + F.cross_entropy(output, target)

    def train_batch(self, batch, epoch_idx, batch_idx):
        metrics = super().train_batch(batch, epoch_idx, batch_idx)
        pairs = zip(self.teacher.parameters(), self.model.parameters(), strict=True)
        for old, new in pairs:
            old.data.lerp_(new.data, 0.1)
        return metrics


class FrozenTeacher(Teacher):
    """The teacher never required gradients."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        Classifier.__init__(self, context)
        self.teacher = self.net().requires_grad_(False)


class Mixin:
    """Everything but a trial."""

    def build_training_data_loader(self):
        size = self.context.get_per_slot_batch_size()
        return DataLoader(rows(), batch_size=size, shuffle=True)

    def build_validation_data_loader(self):
        return DataLoader(rows(10, seed=8), batch_size=self.context.get_per_slot_batch_size())

    def train_batch(self, batch, epoch_idx, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self.net(x), y)
        self.backward(loss)
        self.step(self.opt)
        return {"loss": loss}

    def evaluate_batch(self, batch):
        x, y = batch
        return {"loss": F.cross_entropy(self.net(x), y)}


class Mixed(Mixin, PyTorchTrial):
    """Methods from a mixin, no super().__init__, bound methods of the context."""

    def __init__(self, trial_context: PyTorchTrialContext) -> None:
        self.context = trial_context
        self.backward, self.step = trial_context.backward, trial_context.step_optimizer
        self.net = trial_context.wrap_model(self.build_model())
        self.opt = trial_context.wrap_optimizer(torch.optim.Adam(self.net.parameters()))

    def build_model(self):
        return nn.Linear(FEATURES, CLASSES)


class HandStepped(Classifier):
    """A STEP_EVERY_BATCH schedule that is stepped by hand as well."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        super().__init__(context)
        self.scheduler = context.wrap_lr_scheduler(
            torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.95), MODES.STEP_EVERY_BATCH
        )

    def train_batch(self, batch, epoch_idx, batch_idx):
        metrics = super().train_batch(batch, epoch_idx, batch_idx)
        if batch_idx % 2:
            self.scheduler.step()
        return {**metrics, "lr": self.scheduler.get_last_lr()[0]}


class Plateau(Classifier):
    """ReduceLROnPlateau, stepped in on_validation_end."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        super().__init__(context)
        self.scheduler = context.wrap_lr_scheduler(
            torch.optim.lr_scheduler.ReduceLROnPlateau(self.optimizer, patience=0, threshold=0.5),
            step_mode=MODES.MANUAL_STEP,
        )

    def build_callbacks(self):
        trial = self

        class Steps(PyTorchCallback):
            def on_validation_end(self, metrics):
                trial.seen.append((type(metrics["accuracy"]).__name__, trial.model.training))
                trial.scheduler.step(metrics["validation_loss"].squeeze())

        return {"steps": Steps()}


class Warmup:
    """A schedule that is not torch's: no base class, no optimizer attribute."""

    def __init__(self, groups: list) -> None:
        self.groups, self.steps = groups, 0

    def step(self) -> None:
        self.steps += 1
        for group in self.groups:
            group["lr"] = 0.1 * math.exp(-0.1 * self.steps)

    def get_last_lr(self) -> list:
        return [group["lr"] for group in self.groups]

    def state_dict(self) -> dict:
        return {"steps": self.steps}

    def load_state_dict(self, state: dict) -> None:
        self.steps = state["steps"]


class OwnScheduler(Classifier):
    """A schedule of the user's own."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        super().__init__(context)
        self.warmup = context.wrap_lr_scheduler(
            Warmup(self.optimizer.param_groups), MODES.STEP_EVERY_OPTIMIZER_STEP
        )


class ReadsContext(Classifier):
    """Public and private attributes of the context."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        super().__init__(context)
        self.seen.append(
            [
                str(context.device),
                context.distributed.size,
                context.distributed.rank,
                context.distributed.local_rank,
                context.distributed.get_num_agents(),
                context.get_global_batch_size(),
                context.get_per_slot_batch_size(),
                context.get_hparam("global_batch_size"),
                context.get_initial_batch(),
                len(context.models),
                len(context.optimizers),
                len(context.lr_schedulers),
                context._epoch_len,
                context._current_batch_idx,
                context._aggregation_frequency,
                context.get_stop_requested(),
                hasattr(context, "no_such_attribute"),
                getattr(context, "hvd", None),
            ]
        )

    def note(self) -> None:
        context = self.context
        self.seen.append(
            [
                context.current_train_batch(),
                context.current_train_epoch(),
                context.is_epoch_start(),
                context.is_epoch_end(),
                context._current_batch_idx,
                context._epoch_len,
                context._should_communicate_and_update(),
                [model.training for model in context.models],
                self.model is context.models[0],
            ]
        )

    def build_callbacks(self):
        trial = self

        class Notes(PyTorchCallback):
            def on_training_epoch_start(self, epoch_idx):
                trial.note()

            def on_training_epoch_end(self, epoch_idx):
                trial.note()

            def on_validation_end(self, metrics):
                trial.note()

        return {"notes": Notes()}

    def train_batch(self, batch, epoch_idx, batch_idx):
        self.note()
        return super().train_batch(batch, epoch_idx, batch_idx)


class Attributes(Classifier):
    """Attributes of the wrapped model, with its own methods."""

    class Net(nn.Module):
        """A model with a method that forward() is not."""

        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Linear(FEATURES, CLASSES)
            self.scale = nn.Parameter(torch.ones(1))
            self.register_buffer("calls", torch.zeros(1))

        def forward(self, x):
            self.calls += 1
            return self.body(x) * self.scale

        def penalty(self):
            return self.body.weight.square().sum()

    def net(self) -> nn.Module:
        return self.Net()

    def loss(self, batch) -> torch.Tensor:
        return super().loss(batch) + 0.01 * self.model.penalty()

    def train_batch(self, batch, epoch_idx, batch_idx):
        metrics = super().train_batch(batch, epoch_idx, batch_idx)
        self.seen.append(sorted(self.model.state_dict()))
        return {**metrics, "scale": self.model.scale, "calls": self.model.calls}


class WritesTensorBoard(Classifier):
    """TorchWriter and the context's writer."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        super().__init__(context)
        from determined.tensorboard.metric_writers.pytorch import TorchWriter

        self.torch_writer = TorchWriter()
        self.writer = context.get_tensorboard_writer()

    def train_batch(self, batch, epoch_idx, batch_idx):
        metrics = super().train_batch(batch, epoch_idx, batch_idx)
        self.torch_writer.writer.add_scalar("mine", metrics["loss"].item(), batch_idx)
        self.writer.add_scalar("also_mine", batch_idx, batch_idx)
        return metrics


class LossHelper(nn.Module):
    """A helper that keeps the context."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        super().__init__()
        self.context = context

    def forward(self, output, target):
        return F.cross_entropy(output, target) / (1 + self.context.current_train_epoch())


class HandsContextOn(Classifier):
    """The context goes into a loss, and into a model."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        super().__init__(context)
        self.criterion = LossHelper(context)

    def loss(self, batch) -> torch.Tensor:
        x, y = batch
        return self.criterion(self.model(x), y)

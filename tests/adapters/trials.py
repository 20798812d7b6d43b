"""Small trials that the tests of the Lightning side train."""

from __future__ import annotations

import copy
from typing import Any

import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import TensorDataset

from det_compat import core
from det_compat.pytorch import DataLoader, PyTorchCallback, PyTorchTrial, PyTorchTrialContext

HOOKS = [name for name in vars(PyTorchCallback) if name.startswith("on_")]


def rows(count: int = 16, seed: int = 0) -> TensorDataset:
    """Rows of three features and one target, the same each time."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, 3, generator=generator)
    return TensorDataset(x, x.sum(1, keepdim=True))


def trainer(**flags: Any) -> pl.Trainer:
    """A Trainer that says and writes nothing unless told to."""
    quiet: dict[str, Any] = {
        "accelerator": "cpu",
        "devices": 1,
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "log_every_n_steps": 1,
        "max_epochs": 1,
    }
    return pl.Trainer(**{**quiet, **flags})


def built(trial_cls: type, hparams: Any = None, **kwargs: Any) -> Any:
    """A trial with a context of its own, as a script builds it."""
    context = PyTorchTrialContext(
        core_context=core.TrialCore(),
        trial_seed=None,
        hparams=hparams or {},
        slots_per_trial=1,
        num_gpus=0,
        exp_conf={"name": "test"},
        aggregation_frequency=1,
        steps_completed=0,
        managed_training=True,
        debug_enabled=False,
        enable_tensorboard_logging=False,
    )
    return trial_cls(context, **kwargs)


def weights(module: nn.Module) -> dict[str, torch.Tensor]:
    """A copy of a module's state dict."""
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    """Whether two state dicts are equal, bit for bit."""
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


class Recorder(PyTorchCallback):
    """Keeps every call of a hook, and raises in the hook of that name if told to."""

    def __init__(
        self,
        calls: list[Any] | None = None,
        name: str = "",
        fails_in: str = "",
        error: BaseException | None = None,
    ) -> None:
        self.calls = [] if calls is None else calls
        self.name = name
        self.fails_in = fails_in
        self.error = error

    def __getattribute__(self, name: str) -> Any:
        if name not in HOOKS or name == "on_checkpoint_end":
            return super().__getattribute__(name)
        if name == "on_training_epoch_start":
            # Determined looks at the parameters of this one.
            return lambda epoch_idx: self.note(name, epoch_idx)
        return lambda *args, **kwargs: self.note(name, *args, *kwargs.values())

    def note(self, hook: str, *args: Any) -> None:
        # Determined adds to a dict of metrics after the call.
        self.calls.append((self.name + hook, *map(copy.copy, args)))
        if hook == self.fails_in:
            assert self.error is not None
            raise self.error

    def hooks(self) -> list[str]:
        return [call[0] for call in self.calls]


class Linear(PyTorchTrial):
    """Four batches of four rows an epoch, two batches of validation data."""

    def __init__(self, context: PyTorchTrialContext, **kwargs: Any) -> None:
        self.context = context
        self.kwargs = kwargs
        self.recorder = Recorder()
        self.trained: list[int] = []
        self.evaluated: list[int] = []
        self.prepare()
        self.model = context.wrap_model(self.net())
        self.optimizer = context.wrap_optimizer(self.sgd())
        self.finish()

    def prepare(self) -> None:
        """What comes before wrap_model."""

    def finish(self) -> None:
        """What comes after wrap_optimizer."""

    def hparam(self, name: str, default: Any) -> Any:
        return (self.context._hparams or {}).get(name, default)

    def net(self) -> nn.Module:
        return nn.Linear(3, 1)

    def sgd(self) -> torch.optim.Optimizer:
        lr = self.hparam("lr", 0.1)
        return torch.optim.SGD(self.model.parameters(), lr=lr, momentum=0.9)

    def build_callbacks(self) -> dict[str, PyTorchCallback]:
        return {"recorder": self.recorder}

    def batch_size(self) -> int:
        return int(self.hparam("global_batch_size", 4)) // self.context.distributed.size

    def build_training_data_loader(self) -> Any:
        return DataLoader(rows(), batch_size=self.batch_size(), shuffle=True)

    def build_validation_data_loader(self) -> Any:
        return DataLoader(rows(8, seed=1), batch_size=self.batch_size())

    def loss(self, batch: Any) -> torch.Tensor:
        x, y = batch
        return ((self.model(x) - y) ** 2).mean()

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        self.trained.append(batch_idx)
        loss = self.loss(batch)
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss, "index": batch_idx}

    def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        self.evaluated.append(batch_idx)
        return {"validation_loss": self.loss(batch)}


class Net(nn.Module):
    """A model of more than one layer, with a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 4)
        self.norm = nn.BatchNorm1d(4)
        self.head = nn.Linear(4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.norm(self.inner(x))))


class Normed(Linear):
    """A model with BatchNorm and dropout, trained by Adam."""

    def net(self) -> nn.Module:
        return nn.Sequential(nn.Dropout(0.2), Net())

    def sgd(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.model.parameters(), lr=self.hparam("lr", 0.01))


class Gan(Linear):
    """Two models and optimizers; the generator makes rows, the discriminator judges them."""

    def __init__(self, context: PyTorchTrialContext) -> None:
        self.context = context
        self.recorder = Recorder()
        self.prepare()
        self.generator = context.wrap_model(
            nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
        )
        self.discriminator = context.wrap_model(nn.Linear(3, 1))
        self.g_opt = context.wrap_optimizer(torch.optim.Adam(self.generator.parameters(), lr=0.01))
        self.d_opt = context.wrap_optimizer(
            torch.optim.SGD(self.discriminator.parameters(), lr=0.01)
        )

    def verdict(self, x: torch.Tensor, real: bool) -> torch.Tensor:
        return nn.functional.softplus(self.discriminator(x) * (-1 if real else 1)).mean()

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        real, _ = batch
        g_loss = self.verdict(self.generator(torch.randn(len(real), 2)), True)
        self.context.backward(g_loss)
        self.context.step_optimizer(self.g_opt)
        self.d_opt.zero_grad()
        fake = self.generator(torch.randn(len(real), 2)).detach()
        d_loss = self.verdict(real, True) + self.verdict(fake, False)
        self.context.backward(d_loss)
        self.context.step_optimizer(self.d_opt)
        return {"g_loss": g_loss, "d_loss": d_loss}

    def evaluate_batch(self, batch: Any) -> dict[str, Any]:
        real, _ = batch
        return {"fake": self.verdict(self.generator(torch.randn(len(real), 2)), False)}

"""What test_fully_sharded.py looks at, on two ranks: ``torchrun fully_sharded_ranks.py FOLDER``."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from torch import nn

from det_compat import to_lightning
from det_compat.adapters.lightning.features.fully_sharded import FullyShardedStrategy
from det_compat.pytorch import DataLoader, LRScheduler
from tests.adapters.trials import Linear, Net, rows, trainer
from tests.torchrun import Scenario, find

HPARAMS = {"global_batch_size": 4}


class Rivals(Linear):
    """A GAN with a gradient penalty, a critic that is frozen at times, and clipping by hand."""

    def net(self) -> nn.Module:
        return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 3))

    def sgd(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.model.parameters(), lr=0.01)

    def finish(self) -> None:
        critic = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
        before = torch.optim.Adagrad(critic.parameters(), lr=0.05, initial_accumulator_value=0.1)
        self.critic = self.context.wrap_model(critic)
        self.critics = self.context.wrap_optimizer(before)
        schedule = torch.optim.lr_scheduler.StepLR(self.critics, 3)
        self.context.wrap_lr_scheduler(schedule, LRScheduler.StepMode.STEP_EVERY_BATCH)

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        x, _ = batch
        self.critic.requires_grad_(True)
        with torch.no_grad():
            fake = self.model(x.flip(0))
        middle = ((x + fake) / 2).requires_grad_(True)
        [slope] = torch.autograd.grad(self.critic(middle).sum(), middle, create_graph=True)
        loss = self.critic(fake).mean() - self.critic(x).mean() + slope.norm(dim=1).sub(1).mean()
        self.context.backward(loss)
        norm = 0.0

        def clip(parameters: Any) -> None:
            nonlocal norm
            norm = sum(p.grad.data.norm(2).item() ** 2 for p in parameters) ** 0.5
            for parameter in parameters:
                parameter.grad.mul_(min(1.0, 0.5 / norm))

        self.context.step_optimizer(self.critics, clip_grads=clip)
        self.critic.requires_grad_(False)
        other = -self.critic(self.model(x.flip(0))).mean()
        self.context.backward(other)
        self.context.step_optimizer(
            self.optimizer, clip_grads=lambda p: nn.utils.clip_grad_norm_(p, 0.1)
        )
        return {"loss": loss, "norm": norm}

    def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        return {"verdict": self.critic(self.model(batch[0])).mean()}


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.LayerNorm(4), nn.Linear(4, 4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = x + self.layers(x)
        return result


class Uneven(Linear):
    """Accumulates gradients; the chief alone has a third batch of validation data."""

    def net(self) -> nn.Module:
        frozen = nn.Linear(3, 3).requires_grad_(False)
        first = self.context.wrap_model(nn.Linear(3, 4))
        inner = getattr(first, "module", first)  # One model is in two that are wrapped.
        return nn.Sequential(frozen, inner, Block(), Block(), nn.Linear(4, 3), Net())

    def build_validation_data_loader(self) -> Any:
        return DataLoader(rows(6, seed=1), batch_size=2)


def fitted(trial_cls: type, strategy: Any, ckpt: Any = None, **flags: Any) -> Any:
    torch.manual_seed(4 + int(os.environ["RANK"]))  # The chief's weights are those of all.
    module = to_lightning(trial_cls)(HPARAMS, aggregation_frequency=flags.pop("accumulates", 1))
    used = trainer(devices=2, strategy=strategy, **{"max_epochs": 2, **flags})
    used.fit(module, ckpt_path=ckpt)
    return module, used


def both(trial_cls: type, *, blocks: Any = (), **flags: Any) -> Scenario:
    """Train with ``ddp``, with shards, and with shards from a checkpoint in the middle."""

    def scenario(out: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        path = out / f"{trial_cls.__name__}.ckpt"
        for name, more in (("ddp", {}), ("part", {"max_steps": 5}), ("sharded", {}), ("on", {})):
            sharded = FullyShardedStrategy(blocks=blocks)
            strategy = "ddp" if name == "ddp" else sharded
            given = str(path) if name == "on" else None
            module, used = fitted(trial_cls, strategy, given, **flags, **more)
            if name == "part":
                used.save_checkpoint(path)
            metrics = {key: float(value) for key, value in used.callback_metrics.items()}
            found[name] = dict(module.state_dict()), metrics
            found[f"{name} shapes"] = [len(p) for p in module.models[-1].parameters()]
        return found

    return scenario


def precision(_: Path) -> list[torch.Tensor]:
    """The weights in half the precision, by ``ddp`` and with shards; whole on each rank."""
    found = []
    for strategy in ("ddp", "fully_shard"):
        module, _ = fitted(Linear, strategy, precision="bf16-true")
        [weight, _] = module.models[0].parameters()
        found.append(module.run.steering.whole(weight.detach(), everywhere=True))
    return found


def refused(trial_cls: type, **flags: Any) -> Scenario:
    def scenario(_: Path) -> None:
        fitted(trial_cls, "fully_shard", **flags)

    return scenario


def with_net(net: Callable[[], nn.Module]) -> type:
    return type("OfNet", (Linear,), {"net": lambda self: net()})


class Penalized(Linear):
    def loss(self, batch: Any) -> torch.Tensor:
        return super().loss(batch) + sum((p**2).sum() for p in self.model.parameters())


class Rprop(Linear):
    def sgd(self) -> torch.optim.Optimizer:
        return torch.optim.Rprop(self.model.parameters())


class OneNumber(nn.Linear):
    def __init__(self) -> None:
        super().__init__(3, 1)
        self.scale = nn.Parameter(torch.tensor(1.0))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    find(
        {
            "rivals": both(Rivals),
            "uneven": both(Uneven, blocks=["Block"], accumulates=3),
            "callback": refused(Linear, callbacks=[pl.callbacks.EMAWeightAveraging()]),
            "precision": precision,
            "penalized": refused(Penalized),
            "in parts": refused(Rprop),
            "one number": refused(with_net(OneNumber)),
            "list": refused(with_net(lambda: nn.ModuleList([nn.Linear(3, 1)]))),
        }
    )

"""What is trained: data, models and the step, in terms that every contender can run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import Dataset, TensorDataset

Backward = Callable[[torch.Tensor], None]
Step = Callable[[torch.optim.Optimizer], None]


@dataclass
class Workload:
    """One layer on one number: a batch costs nothing, so all the time is the contender's own.

    Attributes:
        batches: how many are trained; the first ``warm_up`` of them are not timed.
        validation_period: batches between two validations; 0: none.
        checkpoint_period: batches between two checkpoints; 0: none.
        batch_size: records in a batch, on each rank.
        workers: processes that load the training data.
        ranks: processes that train together.
        aggregation: batches of which the gradients are accumulated.
    """

    name: str
    batches: int = 2000
    warm_up: int = 200
    batch_size: int = 4
    validation_period: int = 0
    checkpoint_period: int = 0
    workers: int = 0
    ranks: int = 1
    aggregation: int = 1
    settings: dict[str, Any] = field(default_factory=dict)

    def training_data(self) -> Dataset[Any]:
        return TensorDataset(torch.randn(self.batch_size * 1000, 1))

    def validation_data(self) -> Dataset[Any]:
        return TensorDataset(torch.randn(self.batch_size * 20, 1))

    def models(self) -> list[nn.Module]:
        return [nn.Linear(1, 1)]

    def optimizers(self, models: list[nn.Module]) -> list[torch.optim.Optimizer]:
        return [torch.optim.SGD(model.parameters(), lr=0.01) for model in models]

    def loss(self, models: list[nn.Module], batch: Any) -> torch.Tensor:
        """The loss of a batch, where there is one optimizer."""
        loss: torch.Tensor = models[0](batch[0]).pow(2).mean()
        return loss

    def train(
        self,
        models: list[nn.Module],
        optimizers: list[torch.optim.Optimizer],
        batch: Any,
        backward: Backward,
        step: Step,
    ) -> dict[str, torch.Tensor]:
        """Train on a batch; returns the metrics."""
        loss = self.loss(models, batch)
        backward(loss)
        step(optimizers[0])
        return {"loss": loss}


class Digits(Workload):
    """The CNN of examples/digits, on batches of 64 digits."""

    def _digits(self) -> Dataset[Any]:
        digits = load_digits()
        images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
        return TensorDataset(images, torch.tensor(digits.target))

    training_data = validation_data = _digits

    def models(self) -> list[nn.Module]:
        filters = self.settings.get("filters", 32)
        return [
            nn.Sequential(
                nn.Conv2d(1, filters, 3, padding=1),
                nn.BatchNorm2d(filters),
                nn.ReLU(),
                nn.Conv2d(filters, 2 * filters, 3, padding=1),
                nn.BatchNorm2d(2 * filters),
                nn.ReLU(),
                nn.MaxPool2d(2),
                nn.Flatten(),
                nn.Dropout(0.2),
                nn.Linear(2 * filters * 4 * 4, 10),
            )
        ]

    def optimizers(self, models: list[nn.Module]) -> list[torch.optim.Optimizer]:
        return [torch.optim.Adam(models[0].parameters(), lr=0.001)]

    def loss(self, models: list[nn.Module], batch: Any) -> torch.Tensor:
        images, labels = batch
        return nn.functional.cross_entropy(models[0](images), labels)


class Gan(Workload):
    """Two networks with an optimizer each, on 64 vectors of 64 numbers."""

    NOISE = 32

    def training_data(self) -> Dataset[Any]:
        return TensorDataset(torch.randn(self.batch_size * 50, 64))

    validation_data = training_data

    def models(self) -> list[nn.Module]:
        return [_perceptron(self.NOISE, 64), _perceptron(64, 1)]

    def optimizers(self, models: list[nn.Module]) -> list[torch.optim.Optimizer]:
        return [torch.optim.Adam(model.parameters(), lr=2e-4, betas=(0.5, 0.9)) for model in models]

    def loss(self, models: list[nn.Module], batch: Any) -> torch.Tensor:
        made = models[0](torch.randn(len(batch[0]), self.NOISE))
        return _is_real(models[1](made), 1)

    def train(
        self,
        models: list[nn.Module],
        optimizers: list[torch.optim.Optimizer],
        batch: Any,
        backward: Backward,
        step: Step,
    ) -> dict[str, torch.Tensor]:
        generator_loss = self.loss(models, batch)
        backward(generator_loss)
        step(optimizers[0])
        optimizers[1].zero_grad()
        [real] = batch
        with torch.no_grad():
            made = models[0](torch.randn(len(real), self.NOISE))
        critic_loss = (_is_real(models[1](real), 1) + _is_real(models[1](made), 0)) / 2
        backward(critic_loss)
        step(optimizers[1])
        return {"loss": generator_loss, "critic_loss": critic_loss}


def _perceptron(inputs: int, outputs: int) -> nn.Module:
    hidden = 256
    return nn.Sequential(
        nn.Linear(inputs, hidden),
        nn.LeakyReLU(0.2),
        nn.Linear(hidden, hidden),
        nn.LeakyReLU(0.2),
        nn.Linear(hidden, outputs),
    )


def _is_real(logits: torch.Tensor, answer: int) -> torch.Tensor:
    target = torch.full_like(logits, float(answer))
    return nn.functional.binary_cross_entropy_with_logits(logits, target)


class Transformer(Workload):
    """Two layers of 64, which predict the next of 32 tokens in each of 16 sequences."""

    TOKENS = 100

    def training_data(self) -> Dataset[Any]:
        return TensorDataset(torch.randint(self.TOKENS, (self.batch_size * 50, 33)))

    validation_data = training_data

    def models(self) -> list[nn.Module]:
        layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
        encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        embedding = nn.Embedding(self.TOKENS, 64)
        return [nn.Sequential(embedding, encoder, nn.Linear(64, self.TOKENS))]

    def optimizers(self, models: list[nn.Module]) -> list[torch.optim.Optimizer]:
        return [torch.optim.AdamW(models[0].parameters(), lr=1e-3)]

    def loss(self, models: list[nn.Module], batch: Any) -> torch.Tensor:
        [tokens] = batch
        logits = models[0](tokens[:, :-1])
        return nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


class ShortEpochs(Workload):
    """Epochs of eight batches, loaded by workers."""

    def training_data(self) -> Dataset[Any]:
        return TensorDataset(torch.randn(self.batch_size * 8, 1))


WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for workload in (
        Workload("overhead"),
        Digits("digits CNN", batches=120, warm_up=20, batch_size=64),
        Gan("GAN", batches=250, warm_up=50, batch_size=64),
        Transformer("transformer", batches=90, warm_up=20, batch_size=16),
        Workload("validation-heavy", batches=400, warm_up=100, validation_period=10),
        ShortEpochs("short epochs", batches=320, warm_up=16, workers=2),
        Digits("checkpoints", batches=121, warm_up=20, batch_size=64, checkpoint_period=50),
        Digits("2 ranks", batches=120, warm_up=20, batch_size=32, ranks=2),
        Digits(
            "2 ranks, aggregation 4", batches=120, warm_up=20, batch_size=32, ranks=2, aggregation=4
        ),
    )
}

"""What a trial has in common with the same trial rewritten for the context API: models and data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import Dataset

COLORS, SHAPES = 3, 4


class Things(Dataset):
    """Two inputs and two targets, as nested dicts and tuples, with noise."""

    def __init__(self, count: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.left = torch.randn(count, 5, generator=generator)
        self.right = torch.randn(count, 2, generator=generator)

    def __len__(self) -> int:
        return len(self.left)

    def __getitem__(self, index: int) -> Any:
        left, right = self.left[index], self.right[index].numpy()
        noisy = left + 0.1 * torch.randn(5) + 0.01 * float(np.random.rand())
        inputs = {"left": noisy, "more": (right, {"sum": left.sum()})}
        return inputs, {"color": left[:COLORS].argmax(), "is_high": (left[0] > 0).float()}


class TwoHeads(nn.Module):
    """A color and whether it is high, of what ``Things`` has."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.left, self.right = nn.Linear(5, width), nn.Linear(2, width)
        self.norm, self.dropout = nn.BatchNorm1d(width), nn.Dropout(dropout)
        self.color, self.is_high = nn.Linear(width, COLORS), nn.Linear(width, 1)

    def forward(self, inputs: Any) -> Any:
        right, more = inputs["more"]
        hidden = self.left(inputs["left"]) + self.right(right) + more["sum"].unsqueeze(1)
        hidden = self.dropout(torch.relu(self.norm(hidden)))
        return {"color": self.color(hidden), "high": [self.is_high(hidden).squeeze(1)]}


def two_losses(predictions: Any, labels: Any) -> dict[str, torch.Tensor]:
    color = F.cross_entropy(predictions["color"], labels["color"])
    high = F.binary_cross_entropy_with_logits(predictions["high"][0], labels["is_high"])
    return {"loss": color + 0.5 * high, "color": color, "high": high}


def hits(predictions: Any, labels: Any) -> torch.Tensor:
    """One number a row."""
    return (predictions["color"].argmax(1) == labels["color"]).float()


class Rows(Dataset):
    """Four features and a class."""

    def __init__(self, count: int, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.x = torch.randn(count, 4, generator=generator)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> Any:
        return self.x[index], self.x[index].argmax()


class UnevenBatches:
    """Batches of rows that follow each other, of a random size."""

    def __init__(self, count: int, largest: int) -> None:
        self.count, self.largest = count, largest

    def __len__(self) -> int:
        return self.count // self.largest

    def __iter__(self) -> Iterator[list[int]]:
        for start in range(0, self.count - self.largest + 1, self.largest):
            yield list(range(start, start + int(np.random.randint(2, self.largest + 1))))


class Scaled(torch.optim.lr_scheduler.LRScheduler):
    """A learning rate that the trial sets the scale of."""

    def __init__(self, optimizer: torch.optim.Optimizer, base: float) -> None:
        self.base, self.scale = base, 1.0
        super().__init__(optimizer)

    def get_lr(self) -> list[float]:
        return [self.base * self.scale for _ in self.base_lrs]

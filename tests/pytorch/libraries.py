"""det_compat and, where it is installed, determined: the same test holds for both."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest
import torch

NAMES = ("det_compat", "determined")


@dataclass
class Library:
    """One of the two."""

    name: str
    pytorch: ModuleType
    errors: ModuleType

    def init(self, **kwargs: Any) -> Any:
        return self.pytorch.init(**kwargs)


def library(name: str) -> Library:
    """Skips the test if it is not installed."""
    pytest.importorskip(name)
    return Library(
        name, importlib.import_module(f"{name}.pytorch"), importlib.import_module(f"{name}.errors")
    )


def wrapped(context: Any, **optimizer_kwargs: Any) -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    """A wrapped model of one weight, 1.0, and its wrapped SGD with a learning rate of 1."""
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.ones_(model.weight)
    model = context.wrap_model(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    return model, context.wrap_optimizer(optimizer, **optimizer_kwargs)


def train(context: Any, model: torch.nn.Module, optimizer: Any, *xs: float, **kwargs: Any) -> None:
    """Batches whose gradients are ``xs``, from the batch that is due."""
    for x in xs:
        current = context._current_batch_idx
        context._current_batch_idx = 0 if current is None else current + 1
        context.backward(model(torch.tensor([[x]])).sum())
        context.step_optimizer(optimizer, **kwargs)

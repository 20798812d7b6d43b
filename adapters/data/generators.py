"""The random number generators that belong to a loader, beside the global ones."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Sampler

_Generator = (torch.Generator, np.random.RandomState, np.random.Generator, random.Random)


def generators_of(loader: Any) -> list[Any]:
    """The random number generators that belong to a torch loader and its samplers."""
    if not isinstance(loader, DataLoader):
        return []
    sampler = loader.sampler if loader.batch_sampler is None else loader.batch_sampler
    held = [value for part in parts_of(sampler) for value in vars(part).values()]
    found: list[Any] = []
    for value in [loader.generator, *held]:
        if _has_state(value) and not any(value is other for other in found):
            found.append(value)
    return found


def _has_state(value: Any) -> bool:
    return isinstance(value, _Generator) and not isinstance(value, random.SystemRandom)


def parts_of(sampler: Any) -> list[Any]:
    """A sampler and those that it is made of."""
    found: list[Any] = []
    waiting = [sampler]
    while waiting:
        part = waiting.pop()
        if hasattr(part, "__dict__") and not any(part is other for other in found):
            found.append(part)
            waiting.extend(value for value in vars(part).values() if isinstance(value, Sampler))
    return found


def generator_state(generator: Any) -> Any:
    """The state of a generator of torch, NumPy or Python."""
    if isinstance(generator, np.random.Generator):
        return generator.bit_generator.state
    if isinstance(generator, random.Random):
        return generator.getstate()
    return generator.get_state()


def set_generator_state(generator: Any, state: Any) -> None:
    """Put back what ``generator_state`` returned."""
    if isinstance(generator, np.random.Generator):
        generator.bit_generator.state = state
    elif isinstance(generator, random.Random):
        generator.setstate(state)
    else:
        generator.set_state(state)

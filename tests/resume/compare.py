"""What differs between a run that was resumed and the one that was not."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

ENDS = ("weights", "optimizers", "schedulers", "callbacks")


def differences(whole: dict[str, Any], resumed: dict[str, Any], checkpoint: str) -> list[str]:
    """Where the resumed run, or what the whole one did after the checkpoint, differ."""
    reports, seen, batches = whole["marks"][checkpoint]
    rest = {
        "reports": whole["reports"][reports:],
        "seen": whole["seen"][seen:],
        "batches": whole["batches"][batches:],
        **{name: whole[name] for name in ENDS},
    }
    return [line for name, value in rest.items() for line in _differ(value, resumed[name], name)]


def _differ(a: Any, b: Any, where: str) -> Iterator[str]:
    if isinstance(a, torch.Tensor) or isinstance(b, torch.Tensor):
        if not (isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)):
            yield f"{where}: {a} != {b}"
    elif isinstance(a, (np.ndarray, np.generic)):
        if not (type(a) is type(b) and a.dtype == b.dtype and np.array_equal(a, b)):
            yield f"{where}: {a!r} != {b!r}"
    elif isinstance(a, dict) and isinstance(b, dict):
        if a.keys() != b.keys():
            yield f"{where}: keys {list(a)} != {list(b)}"
        for key in a.keys() & b.keys():
            yield from _differ(a[key], b[key], f"{where}[{key!r}]")
    elif isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        if len(a) != len(b):
            yield f"{where}: {len(a)} items != {len(b)}: {a!r:.300} != {b!r:.300}"
        for index, (one, other) in enumerate(zip(a, b, strict=False)):
            yield from _differ(one, other, f"{where}[{index}]")
    elif a != b or type(a) is not type(b):
        yield f"{where}: {a!r} != {b!r}"

"""One run that both sides are put through. Importing this needs nothing but Python."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Unit = tuple[str, Any]


def epochs(value: Any) -> Unit:
    return ("Epoch", value)


def batches(value: Any) -> Unit:
    return ("Batch", value)


@dataclass
class Case:
    """One training run: which trial, how it is fitted, on how many ranks."""

    name: str
    trial: str
    hparams: dict[str, Any] = field(default_factory=dict)
    fit: dict[str, Any] = field(default_factory=dict)
    aggregation: int = 1
    ranks: tuple[int, ...] = (1, 2)
    lightning: bool = False
    recorder: bool = True
    fits: int = 1
    tensorboard: bool = True
    older: str = ""  # the same trial of an older generation, for to_lightning
    differs: str = ""  # why det_compat does not do what Determined does

    def fit_arguments(self) -> dict[str, Any]:
        defaults = {"max_length": epochs(2), "validation_period": epochs(1)}
        return {**defaults, **self.fit}

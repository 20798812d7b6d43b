"""What a batch costs as something grows: metrics, validation batches, models, ranks."""

from __future__ import annotations

import sys
from itertools import groupby
from typing import Any

import torch
from torch import nn
from torch.utils.data import Dataset, TensorDataset

from benchmarks.workloads import Backward, Step, Workload


class Grown(Workload):
    """One layer or several, of which ``settings`` say how much there is of each thing.

    ``metrics`` are returned by each batch, ``models`` have an optimizer each, and a validation has
    ``validation batches``.
    """

    def _count(self, name: str) -> int:
        return int(self.settings.get(name, 1))

    def validation_data(self) -> Dataset[Any]:
        # Every rank needs one.
        batches = self.settings.get("validation batches", 8)
        return TensorDataset(torch.zeros(self.batch_size * batches, 1))

    def models(self) -> list[nn.Module]:
        return [nn.Linear(1, 1) for _ in range(self._count("models"))]

    def train(
        self,
        models: list[nn.Module],
        optimizers: list[torch.optim.Optimizer],
        batch: Any,
        backward: Backward,
        step: Step,
    ) -> dict[str, torch.Tensor]:
        for model, optimizer in zip(models, optimizers, strict=True):
            loss = self.loss([model], batch)
            backward(loss)
            step(optimizer)
        return {f"metric {number}": loss for number in range(self._count("metrics"))}


class Growth:
    """Workloads that are the same but for the size of one thing.

    Args:
        unit: what the table counts by: a batch that is trained, or one that is evaluated.
        contenders: who trains them.
        workloads: by size.
    """

    def __init__(
        self, unit: str, contenders: tuple[str, ...], workloads: dict[int, Workload]
    ) -> None:
        self.unit = unit
        self.contenders = contenders
        self.workloads = workloads


_DETERMINED, _OURS = "determined 0.38.1", "pytorch.Trainer"
_ALL = ("plain PyTorch", _DETERMINED, _OURS)


def _of(thing: str, batches: dict[int, int], **fields: Any) -> dict[int, Workload]:
    return {
        size: Grown(
            f"{size} {thing}",
            batches=count + 2,
            warm_up=1,
            settings={thing: size},
            **{**fields, **({"ranks": size} if thing == "ranks" else {})},
        )
        for size, count in batches.items()
    }


#: A whole number of reporting periods is measured, but for validations, of which one is.
GROWTH: dict[str, Growth] = {
    "metrics": Growth("batch", _ALL, _of("metrics", {1: 1000, 10: 1000, 100: 500, 1000: 200})),
    "validation batches": Growth(
        "validation batch",
        _ALL,
        _of(
            "validation batches",
            {10: 20, 100: 10, 1000: 3, 10_000: 1, 100_000: 1},
            validation_period=1,
        ),
    ),
    "models": Growth("batch", _ALL, _of("models", {1: 1000, 3: 500, 10: 200, 30: 100, 100: 100})),
    "ranks": Growth("batch", (_DETERMINED, _OURS), _of("ranks", {1: 400, 2: 200, 4: 200, 8: 200})),
    "metrics on 2 ranks": Growth(
        "batch",
        (_DETERMINED, _OURS),
        _of("metrics", {1: 200, 10: 200, 100: 200, 1000: 100}, ranks=2),
    ),
}


def workload_of(name: str) -> Workload:
    """The workload of a growth by its name, as in ``metrics/100``."""
    thing, _, size = name.partition("/")
    return GROWTH[thing].workloads[int(size)]


Point = dict[str, float]


def measure_growth(things: list[str], *, largest: int = sys.maxsize) -> dict[str, Any]:
    """What each size of ``things`` cost each contender.

    A contender has one process for all sizes of a thing, from the smallest: its peak memory is that
    of the size, which is larger than those before. Each number of ranks has processes of its own.
    """
    from benchmarks.measure import training_process

    found: dict[str, Any] = {}
    for thing in things:
        growth = GROWTH[thing]
        sizes = {size: workload for size, workload in growth.workloads.items() if size <= largest}
        found[thing] = {name: {} for name in growth.contenders}
        for name, points in found[thing].items():
            for ranks, group in groupby(sizes.items(), lambda item: item[1].ranks):
                with training_process(name, ranks) as process:
                    for size, workload in group:
                        result = process.train(f"{thing}/{size}")
                        points[str(size)] = _point(thing, size, workload, result)
    return found


def _point(thing: str, size: int, workload: Workload, result: dict[str, float]) -> Point:
    batches = size if thing == "validation batches" else 1
    point = {
        "CPU us": result["cpu_seconds_per_batch"] / batches * 1e6,
        "peak MiB": result["peak_mib"],
    }
    if workload.ranks > 1:
        point["bytes a period"] = result["bytes_sent_per_batch"] * 100
    return point

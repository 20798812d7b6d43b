"""How long training stands still for a checkpoint, and what is written."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from benchmarks.workloads import Workload

MEBIBYTE = 2**20
#: Sizes of a model, in MiB.
SIZES = (1, 100, 2048)
CONTENDERS = ("plain PyTorch", "determined 0.38.1", "to_lightning", "pytorch.Trainer")


class Large(Workload):
    """One layer, beside ``settings["MiB"]`` that are part of the model and not trained."""

    def models(self) -> list[nn.Module]:
        model = nn.Linear(1, 1)
        model.register_buffer("rest", torch.ones(self.settings["MiB"] * MEBIBYTE // 4))
        return [model]


#: One checkpoint is written in the one batch that is measured.
SAVING: dict[str, Workload] = {
    f"model of {size} MiB": Large(
        f"model of {size} MiB",
        batches=3,
        warm_up=1,
        checkpoint_period=1,
        settings={"MiB": size},
    )
    for size in SIZES
}


def measure_saving(largest: int = SIZES[-1]) -> dict[str, dict[str, dict[str, float]]]:
    """Seconds that a batch with a checkpoint takes each contender, and bytes that it writes."""
    from benchmarks.measure import training_process

    sizes = [name for name, workload in SAVING.items() if workload.settings["MiB"] <= largest]
    found: dict[str, Any] = {name: {} for name in sizes}
    for contender in CONTENDERS:
        with training_process(contender) as process:
            for name in sizes:
                result = process.train(name)
                found[name][contender] = {
                    "seconds": 1 / result["batches_per_second"],
                    "CPU seconds": result["cpu_seconds_per_batch"],
                    "MiB written": result["bytes_written_per_batch"] / MEBIBYTE,
                    "peak MiB": result["peak_mib"],
                }
    return found

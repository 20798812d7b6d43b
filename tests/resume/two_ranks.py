"""What test_two_ranks.py looks at: ``torchrun ... two_ranks.py OUT``."""

from __future__ import annotations

import io
import logging
from pathlib import Path
from typing import Any

import torch.distributed as dist
from lightning_fabric.plugins.environments.lightning import LightningEnvironment

from tests.resume import driver
from tests.resume.compare import differences
from tests.resume.subject import Subject
from tests.torchrun import find

EVERY = 5


class Defers(Subject):
    """Gradients differ between ranks until the optimizer steps."""

    def __init__(self, context: Any) -> None:
        super().__init__(context)
        context.sync_when_accumulating = False


def lightning(out: Path, trial_cls: type = Subject, **kwargs: Any) -> dict[str, Any]:
    folder = out / f"{trial_cls.__name__}-{len(kwargs)}"
    flags = {"devices": 2, "trial_cls": trial_cls, **kwargs}
    whole = driver.lightning(folder, **flags)
    found = {}
    for checkpoint in list(whole["marks"])[::EVERY]:
        resumed = driver.lightning(None, folder / checkpoint, first_seed=99, **flags)
        found[checkpoint] = differences(whole, resumed, checkpoint)[:5]
    return found


def determined(out: Path, trial_cls: type = Subject, **kwargs: Any) -> dict[str, Any]:
    whole = driver.determined(trial_cls=trial_cls, **kwargs)
    [marks, _] = _both(whole["marks"])
    found = {}
    # The chief alone writes, and tells its callbacks.
    for checkpoint, (reports, _, batches) in list(marks.items())[::EVERY]:
        whole["marks"] = {checkpoint: (reports if dist.get_rank() == 0 else 0, 0, batches)}
        resumed = driver.determined(checkpoint, trial_cls=trial_cls, first_seed=99, **kwargs)
        found[Path(checkpoint).name] = differences(whole, resumed, checkpoint)[:5]
    return found


def _both(stuff: Any) -> list[Any]:
    everything: list[Any] = [None, None]
    dist.all_gather_object(everything, stuff)
    return everything


def other_number_of_ranks(out: Path) -> Any:
    """Two ranks' checkpoint after three steps, taken up by each rank alone."""
    folder = out / "alone"
    driver.lightning(folder, devices=2, max_epochs=1)
    dist.barrier()
    said = io.StringIO()
    handler = logging.StreamHandler(said)
    logging.getLogger("det_compat").addHandler(handler)
    alone: dict[str, Any] = {"limit_val_batches": 0, "max_epochs": 1}
    found = driver.lightning(
        None, folder / "3-batch.ckpt", plugins=[LightningEnvironment()], **alone
    )
    trained = [index for index, _, _ in found["batches"]]
    return {
        "batches": trained[0],
        "left in the epoch": len(trained),
        "said": "with ranks: 1, its checkpoint was written with: 2" in said.getvalue(),
    }


if __name__ == "__main__":
    dist.init_process_group("gloo")
    driver.record_reports()
    find(
        {
            "lightning": lightning,
            "lightning with workers": lambda out: lightning(out, hparams={"workers": 2}),
            "lightning that defers": lambda out: lightning(out, Defers),
            "determined": determined,
            "determined with workers": lambda out: determined(out, hparams={"workers": 2}),
            "other": other_number_of_ranks,
        }
    )

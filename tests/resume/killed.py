"""Trains the subject from its latest checkpoint on, in a process that may be killed.

``python -m tests.resume.killed OUT WORKERS SECONDS_PER_BATCH``; writes OUT at its end.
Each report is a line of OUT.reports: batches trained, and what was reported.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch

from det_compat import core
from det_compat.pytorch import Batch
from tests.resume import driver
from tests.resume.subject import Subject

SECONDS = float(sys.argv[3])


class Slow(Subject):
    """Takes its time, so that kills meet it anywhere."""

    def train_batch(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        time.sleep(SECONDS)
        return super().train_batch(*args, **kwargs)


def main(out: Path, workers: int) -> None:
    for name in ("report_training_metrics", "report_validation_metrics"):

        def report(self: Any, name: str = name, **kwargs: Any) -> None:
            with out.with_suffix(".reports").open("a") as file:
                file.write(json.dumps([kwargs["steps_completed"], name, repr(kwargs)]) + "\n")

        setattr(core.TrainContext, name, report)
    latest = core.CheckpointStore().latest()
    print("process", os.getpid(), "starts after", latest and latest.steps_completed, flush=True)
    found = driver.determined(
        latest and latest.uuid,
        trial_cls=Slow,
        hparams={"workers": workers},
        checkpoint_period=Batch(4),
        first_seed=5 if latest is None else 99,
    )
    torch.save({name: found[name] for name in ("weights", "optimizers", "callbacks")}, out)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))

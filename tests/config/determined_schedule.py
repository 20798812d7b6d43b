"""What the real Determined 0.38.1 does when: ``python determined_schedule.py CASES`` (JSON).

A case is the arguments of ``TrainUnit._from_values`` for each period, as the cluster passed them
on. Printed is, for each, the batch counts of validations, checkpoints and reports.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import torch
from determined import pytorch


class Case(pytorch.PyTorchCallback):
    """Counts batches, and records at which of them something happens."""

    def __init__(self) -> None:
        self.batches = 0
        self.seen: dict[str, list[int]] = {"validations": [], "checkpoints": [], "reports": []}

    def on_validation_start(self) -> None:
        self.seen["validations"].append(self.batches)

    def on_training_workload_end(self, avg_metrics: Any, batch_metrics: Any) -> None:
        self.seen["reports"].append(self.batches)


class Trial(pytorch.PyTorchTrial):
    """Trains nothing, over an epoch of a given length."""

    case: Case
    epoch_batches: int

    def __init__(self, context: pytorch.PyTorchTrialContext) -> None:
        self.model = context.wrap_model(torch.nn.Linear(1, 1))
        self.optimizer = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.1))

    def build_callbacks(self) -> dict[str, Any]:
        return {"case": self.case}

    def build_training_data_loader(self) -> pytorch.DataLoader:
        return pytorch.DataLoader(list(range(self.epoch_batches)), batch_size=1)

    def build_validation_data_loader(self) -> pytorch.DataLoader:
        return pytorch.DataLoader([0], batch_size=1)

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        self.case.batches += 1
        return {"loss": 0.0}

    def evaluate_batch(self, batch: Any) -> dict[str, Any]:
        return {"loss": 0.0}


def run(case: dict[str, Any]) -> dict[str, list[int]]:
    """What the trainer does for ``case``."""
    Trial.case, Trial.epoch_batches = Case(), case["epoch_batches"]
    size = case["global_batch_size"]

    def unit(name: str) -> pytorch.TrainUnit:
        return pytorch.TrainUnit._from_values(**case[name], global_batch_size=size)

    class Controller(pytorch._PyTorchTrialController):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**{**kwargs, "checkpoint_policy": case["checkpoint_policy"]})

        def _save(self, path: Any) -> None:
            path.mkdir(parents=True, exist_ok=True)
            Trial.case.seen["checkpoints"].append(Trial.case.batches)

    # a local run knows no policy but "all"; a cluster's passed the config's on
    original, pytorch._PyTorchTrialController = pytorch._PyTorchTrialController, Controller
    try:
        with pytorch.init() as context:
            pytorch.Trainer(Trial(context), context).fit(
                max_length=unit("length"),
                validation_period=unit("validation"),
                checkpoint_period=unit("checkpoint"),
                reporting_period=pytorch.Batch(case["report"]),
                step_zero_validation=case["initial_validation"],
            )
    finally:
        pytorch._PyTorchTrialController = original
    return Trial.case.seen


if __name__ == "__main__":
    print(json.dumps([run(case) for case in json.loads(sys.argv[1])]))

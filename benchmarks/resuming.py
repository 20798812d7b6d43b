"""How long a run takes to go on with a training loader of so many samples."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.measure import ROOT

#: Samples of the training data, with the batches of 64 after which the run is resumed.
SIZES = ((10_000, 100), (10_000_000, 100), (10_000_000, 100_000))


def measure_resumes(samples: int = SIZES[-1][0]) -> dict[str, dict[str, float]]:
    """CPU seconds from ``fit`` to the first batch, of a run and of one that goes on, by size."""
    found = {}
    for size, batches in SIZES:
        if size <= samples:
            with tempfile.TemporaryDirectory() as folder:
                (work := Path(folder, "work")).mkdir()
                output = subprocess.run(
                    [sys.executable, "-m", "benchmarks.resuming", str(size), str(batches)],
                    cwd=work,
                    env={**os.environ, "PYTHONPATH": str(ROOT), "XDG_DATA_HOME": folder},
                    check=True,
                    stdout=subprocess.PIPE,
                ).stdout
            found[f"{size:,} samples, after {batches:,} batches"] = json.loads(output)
    return found


def main(samples: int, batches: int) -> None:
    """Train ``batches``, go on for one more, and print what each took to begin."""
    import torch
    from torch.utils.data import Dataset

    from det_compat import pytorch

    class Samples(Dataset[torch.Tensor]):
        def __len__(self) -> int:
            return samples

        def __getitem__(self, index: int) -> torch.Tensor:
            return one

    class OneLayer(pytorch.PyTorchTrial):
        def __init__(self, context: Any) -> None:
            self.context = context
            self.model = context.wrap_model(torch.nn.Linear(1, 1))
            optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
            self.optimizer = context.wrap_optimizer(optimizer)

        def build_training_data_loader(self) -> Any:
            return pytorch.DataLoader(
                Samples(), batch_size=64, shuffle=True, collate_fn=lambda samples: samples[0]
            )

        def build_validation_data_loader(self) -> Any:
            return pytorch.DataLoader([one], batch_size=1)

        def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
            began.append(time.process_time())
            return {"loss": 0.0}

        def evaluate_batch(self, batch: Any) -> dict[str, Any]:
            return {"loss": 0.0}

    def fit(length: int, checkpoint: str | None) -> float:
        began.clear()
        with pytorch.init(hparams={"global_batch_size": 64}) as context:
            trial = OneLayer(context)
            start = time.process_time()
            pytorch.Trainer(trial, context).fit(
                max_length=pytorch.Batch(length), latest_checkpoint=checkpoint
            )
        return began[0] - start

    one, began = torch.ones(1), []
    fit(1, None)
    fresh = fit(batches, None)
    [*_, latest] = sorted(
        Path(os.environ["XDG_DATA_HOME"], "determined").iterdir(), key=os.path.getmtime
    )
    print(json.dumps({"begins": fresh, "goes on": fit(batches + 1, str(latest))}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))

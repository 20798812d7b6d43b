"""What a module adds to the callbacks of its Trainer."""

from __future__ import annotations

import datetime
from pathlib import Path

import torch
from pytorch_lightning.callbacks import ModelCheckpoint

from det_compat import to_lightning
from tests.adapters.trials import Linear, trainer


def test_checkpoints_by_the_time_are_written(tmp_path: Path) -> None:
    torch.manual_seed(3)
    module = to_lightning(Linear)({"global_batch_size": 4, "lr": 0.1})
    checkpoint = ModelCheckpoint(
        tmp_path, filename="{step}", train_time_interval=datetime.timedelta(0), save_top_k=-1
    )
    used = trainer(max_epochs=1, enable_checkpointing=True, callbacks=[checkpoint])
    used.fit(module)
    batches = len(module.trial.trained)
    assert {file.name for file in tmp_path.iterdir()} == {
        f"step={batch}.ckpt" for batch in range(1, batches + 1)
    }

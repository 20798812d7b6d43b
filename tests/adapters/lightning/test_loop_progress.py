"""Where Lightning goes on after ``go_on_after``, seen from outside."""

from __future__ import annotations

from typing import Any

import pytest
import pytorch_lightning as pl

from det_compat import to_lightning
from det_compat.adapters.lightning.loop_progress import (
    ended_epoch,
    go_on_after,
    validation_was_due,
)
from tests.adapters.trials import Linear, trainer

EPOCH = 4


class Placed(pl.Callback):
    """Places the loops once, and notes what Lightning does from there."""

    def __init__(self, batches: int, *, epoch_is_over: bool) -> None:
        self.batches = batches
        self.epoch_is_over = epoch_is_over
        self.was_due: bool | None = None
        self.seen: list[Any] = []

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.was_due = validation_was_due(trainer)

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self.seen.append(("epoch", trainer.current_epoch, trainer.global_step))

    def on_train_batch_start(self, trainer: pl.Trainer, *args: Any) -> None:
        self.seen.append(("batch", trainer.current_epoch, args[-1]))


def placed(batches: int, *, epoch_is_over: bool = True, **flags: Any) -> Placed:
    noted = Placed(batches, epoch_is_over=epoch_is_over)
    used = trainer(max_epochs=2, callbacks=[noted], **flags)
    module: Any = to_lightning(Linear)()
    build = module.train_dataloader

    def train_dataloader() -> Any:
        loader = build()
        go_on_after(used, batches, EPOCH, epoch_is_over=epoch_is_over)
        loader.is_over = batches > 0 and batches % EPOCH == 0 and not epoch_is_over
        return loader

    module.train_dataloader = train_dataloader
    used.fit(module)
    assert used.global_step == max(2 * EPOCH, batches)
    return noted


@pytest.mark.parametrize("batches", [1, 3, 5])
def test_in_the_middle_of_an_epoch(batches: int) -> None:
    epoch, index = divmod(batches, EPOCH)
    noted = placed(batches)
    assert noted.seen[0] == ("batch", epoch, index)
    assert len([one for one in noted.seen if one[0] == "batch"]) == 2 * EPOCH - batches


def test_after_an_epoch() -> None:
    assert placed(4).seen[:2] == [("epoch", 1, 4), ("batch", 1, 0)]


def test_at_the_end_of_an_epoch_that_is_not_over() -> None:
    noted = placed(4, epoch_is_over=False)
    assert noted.seen[:2] == [("epoch", 1, 4), ("batch", 1, 0)]
    assert noted.was_due is True


@pytest.mark.parametrize(
    ("batches", "flags", "due"),
    [
        (3, {}, False),
        (2, {"val_check_interval": 2}, True),
        (3, {"val_check_interval": 2}, False),
        (6, {"val_check_interval": 3, "check_val_every_n_epoch": None}, True),
        (6, {"val_check_interval": 2, "limit_val_batches": 0}, False),
        (2, {"val_check_interval": 2, "check_val_every_n_epoch": 2}, False),
        (6, {"val_check_interval": 2, "check_val_every_n_epoch": 2}, True),
    ],
)
def test_a_validation_was_due(batches: int, flags: dict[str, Any], due: bool) -> None:
    assert placed(batches, **flags).was_due is due


def loops(ready: int, started: int, processed: int) -> dict[str, Any]:
    current = {"ready": ready, "started": started, "processed": processed, "completed": 0}
    return {"fit_loop": {"epoch_progress": {"current": current}}}


def test_an_epoch_is_over_once_lightning_has_processed_it_or_begins_the_next() -> None:
    assert ended_epoch(None)
    assert not ended_epoch(loops(1, 1, 0))
    assert ended_epoch(loops(1, 1, 1))
    assert ended_epoch(loops(2, 1, 1))

from __future__ import annotations

from typing import Any

import pytorch_lightning as pl

_LOUD = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
_QUIET: dict[str, Any] = {**dict.fromkeys(_LOUD, False), "accelerator": "cpu"}
FIT = 'if self.trainer.state.fn == "fit":\n'
ONE = '    def evaluate_batch(self, batch):\n        return {"error": self.model(batch).sum()}\n'
WHOLE = """\
    def evaluate_full_dataset(self, data_loader):
        error = sum(float(self.model(batch).sum() * 0 + 1) for batch in data_loader)
{0}
        return {{"error": error}}
"""


def rate_after(made: str) -> float:
    """The learning rate of a module after two epochs of fit, between validations that are none."""
    module = _module(made.replace("DataLoader([]", "DataLoader(list(torch.ones(4, 2))"))
    for _ in range(3):
        pl.Trainer(**_QUIET).validate(module, verbose=False)
    trainer = pl.Trainer(max_epochs=2, **_QUIET)
    trainer.fit(module)
    (group,) = trainer.optimizers[0].param_groups
    rate: float = group["lr"]
    for _ in range(3):
        trainer.validate(module, verbose=False)
    assert group["lr"] == rate
    return rate


def epochs_after(made: str, validations: int) -> int:
    """The epochs after which a module ends training, of nine, with validations before."""
    module = _module(made)
    for _ in range(validations):
        pl.Trainer(**_QUIET).validate(module, verbose=False)
    trainer = pl.Trainer(max_epochs=9, **_QUIET)
    trainer.fit(module)
    return trainer.current_epoch


def _module(made: str) -> pl.LightningModule:
    space: dict[str, Any] = {"__name__": "made"}
    exec(made, space)
    module: pl.LightningModule = space["Trial"](global_batch_size=2)
    return module

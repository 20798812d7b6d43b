from __future__ import annotations

import pytorch_lightning as pl

from det_compat.migrate.to_lightning.reserved import RESERVED
from tests.migrate.rewriting import rewritten, trial


def test_the_names_are_lightnings():
    module = pl.LightningModule()
    public = {name for name in dir(pl.LightningModule) if not name.startswith("_")}
    hooks = {name for name in public if name.startswith(("on_", "CHECKPOINT", "has_"))}
    assert public - hooks - RESERVED == set()
    assert isinstance(module, pl.LightningModule)


def test_attributes_and_methods_are_renamed(tmp_path):
    change = (
        "self.context = context",
        "self.context = context\n        self.logger = make_logger()",
    )
    made = rewritten(tmp_path, trial(change, ("self.model(batch).sum()}", "self.logger.last}")))
    assert "self.trial_logger = make_logger()" in made
    assert "self.trial_logger.last" in made


def test_hparams_are_there_already(tmp_path):
    change = ("self.context = context", "self.hparams = context.get_hparams()")
    made = rewritten(tmp_path, trial(change, ("lr=0.1", 'lr=self.hparams["lr"]')))
    assert 'lr=self.hparams["lr"]' in made
    assert "self.hparams = " not in made
    assert "def __init__(self, **hparams: Any)" in made

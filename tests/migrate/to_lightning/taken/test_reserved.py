from __future__ import annotations

import pytorch_lightning as pl

from det_compat.migrate.to_lightning.taken.reserved import HOOKS, KEPT, RESERVED


def test_the_names_are_lightnings():
    public = {name for name in dir(pl.LightningModule) if not name.startswith("_")}
    known = {name for name in public if name.startswith(("CHECKPOINT", "has_"))}
    # What it keeps for itself is a trial's often: its device, its hyperparameters.
    kept = {name for name in dir(pl.LightningModule()) if name.startswith("_")}
    kept = {name for name in kept if not name.startswith(("__", "_LightningModule__"))}
    assert (public | kept) - known - RESERVED - KEPT - HOOKS == set()
    assert {name for name in public if name.startswith("on_")} - RESERVED == HOOKS

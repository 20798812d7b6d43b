from __future__ import annotations

from types import SimpleNamespace
from unittest import mock

import pytest
import pytorch_lightning as pl

from det_compat.migrate.to_lightning.taken.reserved import HOOKS, KEPT, RESERVED
from tests.migrate.rewriting import rewritten, trial


def test_the_names_are_lightnings():
    public = {name for name in dir(pl.LightningModule) if not name.startswith("_")}
    known = {name for name in public if name.startswith(("CHECKPOINT", "has_"))}
    # What it keeps for itself is a trial's often: its device, its hyperparameters.
    kept = {name for name in dir(pl.LightningModule()) if name.startswith("_")}
    kept = {name for name in kept if not name.startswith(("__", "_LightningModule__"))}
    assert (public | kept) - known - RESERVED - KEPT - HOOKS == set()
    assert {name for name in public if name.startswith("on_")} - RESERVED == HOOKS


@pytest.mark.parametrize(
    "use",
    [
        "self.width = width(self.hparams.net)",
        "self.width = width(given=self.hparams.net)",
        "net = self.hparams.net\n        self.width = net.width",
    ],
)
def test_hyperparameters_in_others_stay_attributes_where_no_config_tells_which(use, tmp_path):
    before = f"self.hparams = AttrDict(context.get_hparams())\n        {use}"
    made_up = (
        "from attrdict import AttrDict\n\n\ndef width(given):\n    return given.width\n\n\nclass T"
    )
    made = rewritten(tmp_path, trial(("self.context = context", before), ("class T", made_up)))

    def deep(given):
        inner = {n: deep(v) if isinstance(v, dict) else v for n, v in given.items()}
        return SimpleNamespace(**inner)

    names = {}
    with mock.patch.dict("sys.modules", attrdict=SimpleNamespace(AttrDict=deep)):
        exec(compile(made, "made", "exec"), names)
    assert names["Trial"](net={"width": 3}, global_batch_size=4).width == 3


def test_hyperparameters_that_are_numbers_are_the_modules_own(tmp_path):
    before = "self.hparams = AttrDict(context.get_hparams())\n        self.rate = self.hparams.rate"
    changes = ("self.context = context", before), ("lr=0.1", "lr=self.hparams.lr")
    made = rewritten(
        tmp_path, trial(*changes, ("class T", "from attrdict import AttrDict\n\n\nclass T"))
    )
    assert "AttrDict" not in made

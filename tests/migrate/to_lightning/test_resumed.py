"""What a run that goes on from a checkpoint has to be told."""

from __future__ import annotations

import pytest

from det_compat.migrate.to_lightning.resumed import SAID
from tests.migrate.rewriting import rewritten, trial

HEADER = """\
import torch
from determined.pytorch import DataLoader, LRScheduler, PyTorchTrial, PyTorchTrialContext


class Attributes(dict):
    __getattr__ = dict.__getitem__


class Warmup(torch.optim.lr_scheduler.LRScheduler):
    def __init__(self, optimizer, hparams):
        {}
        super().__init__(optimizer)


"""
OPTIMIZER = "self.opt = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.1))\n"
MADE = """\
        self.own_hparams = {}
        self.warmup = Warmup(self.opt, self.own_hparams)
        context.wrap_lr_scheduler(self.warmup, LRScheduler.StepMode.STEP_EVERY_BATCH)
"""


@pytest.mark.parametrize(
    ("kept", "hparams", "is_said"),
    [
        ("self.hparams = hparams", "Attributes(context.get_hparams())", True),
        ("self.steps = hparams.steps", "Attributes(context.get_hparams())", False),
        ("self.hparams = hparams", "dict(context.get_hparams())", False),
    ],
)
def test_a_scheduler_that_keeps_an_object_of_the_hyperparameters(kept, hparams, is_said, tmp_path):
    source = trial((OPTIMIZER, OPTIMIZER + MADE.format(hparams)), header=HEADER.format(kept))
    text = rewritten(tmp_path, source)
    assert (SAID[1] in text) is is_said

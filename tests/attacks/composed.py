"""Trials that are put together at random, of what trials of users have, and migrated."""

from __future__ import annotations

import textwrap
from pathlib import Path
from random import Random

from det_compat.adapters.verify.verdict import Pair, verify_all
from tests.attacks.drafted import HPARAMS as DRAFTED
from tests.attacks.drafted import drafted
from tests.attacks.layered import layered
from tests.attacks.migrations import AT_ONCE, BATCHES, migrated, migrated_files
from tests.attacks.older import older
from tests.attacks.rewordings import reworded
from tests.attacks.spread import spread

HPARAMS = {"global_batch_size": 3, "lr": 0.1, "every": 3, "decays": True, "clip": 0.2}

TRIAL = """\
import torch
from determined.pytorch import DataLoader, LRScheduler, PyTorchCallback, PyTorchTrial
from torch import nn


class Slower(PyTorchCallback):
    def __init__(self, trial):
        self.trial = trial

    def on_training_epoch_start(self, epoch_idx):
        for group in self.trial.opt.param_groups:
            group["lr"] *= 0.9


def rows(count):
    generator = torch.Generator().manual_seed(count)
    x = torch.randn(count, 3, generator=generator)
    return torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True).expand(-1, 2))


class Composed(PyTorchTrial):
    def __init__(self, context):
{init}
{methods}
    def train_batch(self, batch, epoch_idx, batch_idx):
{train}
    def evaluate_batch(self, batch):
        x, y = batch
        return {evaluated}

    def build_training_data_loader(self):
        size = self.context.get_per_slot_batch_size()
        return DataLoader(rows({rows}), batch_size=size{loader})

    def build_validation_data_loader(self):
        return DataLoader(rows(6), batch_size=3)
"""
MODELS = (
    "nn.Linear(3, 2)",
    "nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.3), nn.Linear(4, 2))",
    "nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Tanh(), nn.Linear(4, 2))",
)
OPTIMIZERS = ("SGD({}, lr={}, momentum=0.5)", "AdamW({}, lr={})")
SCHEDULERS = (
    "StepLR({}, 2, gamma=0.5)",
    "ExponentialLR({}, 0.9)",
    "LambdaLR({}, lambda step: min(1.0, (step + 1) / 5))",
    "OneCycleLR({}, max_lr=0.2, total_steps=100)",
)
MODES = ("STEP_EVERY_EPOCH", "STEP_EVERY_BATCH", "STEP_EVERY_OPTIMIZER_STEP", "MANUAL_STEP")
FREQUENCIES = ("", "", ", frequency=2", ', frequency=context.get_hparam("every")', ", frequency=n")
BY_HAND = (
    "",
    "self.schedule.step()\n",
    "if batch_idx % 3 == 2:\n    self.schedule.step()\n",
    "if self.context.is_epoch_end():\n    self.schedule.step()\n",
)
LOSSES = (
    "loss = nn.functional.mse_loss(self.model(x), y)\n",
    "output = self.model(x)\nloss = ((output - y) ** 2).mean()\n",
    "loss = self.loss(x, y)\n",
    "x = x + 0.01 * torch.randn_like(x)\nloss = nn.L1Loss()(self.model(x), y)\n",
)
EARLY = ("", "", "", 'if batch_idx % 3 == 1:\n    return {"loss": x.mean()}\n')
CLIPS = (
    "",
    "",
    ", clip_grads=lambda them: nn.utils.clip_grad_norm_(them, 0.5)",
    ", lambda them: nn.utils.clip_grad_value_(them, self.context.get_hparam('clip'))",
)
STEPS = (
    "self.context.backward(loss)\n{}",
    "self.context.backward(loss)\n{}",
    "self.context.backward(loss / 2)\nif (batch_idx + 1) % 2 == 0:\n    {}",
    "self.context.backward(loss)\nnn.utils.clip_grad_norm_(self.model.parameters(), 1.0)\n{}",
)
RETURNS = (
    'return {"loss": loss}\n',
    "return loss\n",
    'return {"loss": loss.detach(), "epoch": epoch_idx}\n',
    'return {"loss": loss, "error": (self.model(x) - y).abs().mean()}\n',
    'found = {"loss": loss.item()}\nfound["lr"] = self.opt.param_groups[0]["lr"]\nreturn found\n',
)
EVALUATED = (
    '{"val": nn.functional.mse_loss(self.model(x), y)}',
    '{"val": nn.functional.mse_loss(self.model(x), y).item(), "rows": len(x)}',
)
LOSS = (
    "    def loss(self, x, y):\n        return nn.functional.smooth_l1_loss(self.model(x), y)\n\n"
)
CALLBACKS = '    def build_callbacks(self):\n        return {"slower": Slower(self)}\n\n'
LOADERS = ("", ", shuffle=True", ", shuffle=True, drop_last=True")


def attack(draw: Random, folder: Path) -> None:
    """Compose, migrate and verify a dozen trials.

    Raises:
        AssertionError: one that trains differs without a mark, or one as it was drawn fails.
    """
    pairs = [_pair(draw, folder / str(number)) for number in range(AT_ONCE)]
    unmarked = [(pair, names) for pair, names in pairs if pair is not None]
    verdicts = verify_all([pair for pair, _ in unmarked], batches=BATCHES)
    wrong = [
        "\n".join((str(verdict), *(f.read_text() for f in pair.old[0].parent.glob("*.py"))))
        for (pair, names), verdict in zip(unmarked, verdicts, strict=True)
        # A rewording may have been a wrong one.
        if not verdict.is_identical and not (verdict.original_error and names)
    ]
    assert not wrong, "\n".join(wrong)


def _pair(draw: Random, home: Path) -> tuple[Pair | None, list[str]]:
    """A trial before and after, None if it is marked, and in which ways it has been reworded."""
    source, hparams, config = trial(draw), HPARAMS, None
    if (kind := draw.random()) < 0.4:
        return migrated_files(*draw.choice((spread, layered))(draw), home), []
    if kind < 0.7:
        (source, config), hparams = drafted(draw), DRAFTED
    elif kind < 0.9:
        source, config = older(draw)
        hparams = config["hyperparameters"]
    names: list[str] = []
    if draw.random() < 0.25:
        source, names = reworded(source, "Composed", draw)
    return migrated(source, "Composed", hparams, home, config), names


def trial(draw: Random) -> str:
    """The source of a trial."""
    init = f"self.context = context\nself.model = context.wrap_model({draw.choice(MODELS)})\n"
    optimizer = draw.choice(OPTIMIZERS)
    made = optimizer.format("self.model.parameters()", 'context.get_hparam("lr")')
    init += f"self.opt = context.wrap_optimizer(torch.optim.{made})\n"
    early = draw.choice(EARLY)
    train = f"x, y = batch\n{early}{draw.choice(LOSSES)}"
    train += draw.choice(STEPS).format(
        f"self.context.step_optimizer(self.opt{draw.choice(CLIPS)})\n"
    )
    by_hand = ""
    for name in draw.choice(([], ["schedule"], ["schedule"], ["schedule", "other"])):
        mode = draw.choice(MODES)
        by_hand = draw.choice(BY_HAND) if mode == "MANUAL_STEP" and name == "schedule" else by_hand
        init += _scheduler(draw, name, mode, may_lack=not by_hand and draw.random() < 0.3)
    # Every batch of a period has to return the same names.
    train += by_hand + draw.choice(RETURNS[:2] if early else RETURNS)
    methods = (LOSS if "self.loss(" in train else "") + draw.choice(("", "", CALLBACKS))
    return TRIAL.format(
        init=textwrap.indent(init, " " * 8),
        methods=methods,
        train=textwrap.indent(train, " " * 8),
        evaluated=draw.choice(EVALUATED),
        rows=draw.choice((8, 9, 12)),
        loader=draw.choice(LOADERS),
    )


def _scheduler(draw: Random, name: str, mode: str, *, may_lack: bool) -> str:
    frequency = "" if mode == "MANUAL_STEP" else draw.choice(FREQUENCIES)
    made = f"torch.optim.lr_scheduler.{draw.choice(SCHEDULERS).format('self.opt')}"
    call = f"context.wrap_lr_scheduler({made}, LRScheduler.StepMode.{mode}{frequency})"
    line = f"self.{name} = {call}\n"
    before = 'n = context.get_hparam("every")\n' if "frequency=n" in frequency else ""
    if may_lack:
        none = draw.choice(("", f"self.{name} = None\n"))
        line = f'{none}if context.get_hparam("decays"):\n    {line}'
    return before + line

"""Random trials over two files: parts are made by helpers that are handed context or hparams."""

from __future__ import annotations

import textwrap
from random import Random
from typing import Any

PARTS = """\
import random

import numpy as np
import torch
from determined.pytorch import DataLoader, LRScheduler, PyTorchCallback, PyTorchTrial
from torch import nn


def rows(count):
    generator = torch.Generator().manual_seed(count)
    x = torch.randn(count, 3, generator=generator)
    return torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True).expand(-1, 3))


class Backwards(torch.utils.data.Sampler):
    def __init__(self, data):
        self.data = data

    def __iter__(self):
        return iter(range(len(self.data) - 1, -1, -1))

    def __len__(self):
        return len(self.data)

"""
HEADER = """\
import torch
from determined.pytorch import (
    DataLoader,
    LRScheduler,
    PyTorchCallback,
    PyTorchTrial,
    PyTorchTrialContext,
    TorchData,
)
from torch import nn

import parts_NUMBER
from parts_NUMBER import *

"""
HPARAMS: dict[str, Any] = {
    "global_batch_size": 3,
    "lr": 0.05,
    "optimizer": "SGD",
    "model": {"width": 4, "dropout": 0.2},
    "decays": True,
    "warmup": 4,
}
NET = """\
class Net(nn.Module):
    def __init__(self, {parameters}):
        super().__init__()
        self.body = nn.Linear(3, {width})
        self.drop = nn.Dropout({dropout})
        self.head = nn.Linear({width}, 3)

    def forward(self, x):
        return self.head(self.drop(torch.tanh(self.body(x))))

"""
#: How a helper is told of hyperparameters: its parameter, what it is called with, how it asks.
TOLD = (
    ("context", "{context}", 'context.get_hparam("{}")'),
    ("context", "{context}", 'context.get_hparams()["{}"]'),
    ("hparams", "{context}.get_hparams()", 'hparams["{}"]'),
    ("hparams", "{hparams}", 'hparams["{}"]'),
    ("hparams", "{hparams}", 'hparams.get("{}")'),
    ("trial", "self", 'trial.context.get_hparam("{}")'),
    ("get", "{context}.get_hparam", 'get("{}")'),
)
LOSSES = (
    "nn.functional.mse_loss(output, y)",
    "self.criterion(output, y)",
    "self.loss(output, y)",
    "squared(output, y)",
    "parts_NUMBER.squared(output, y)",
)
AUX = (
    ("mean", "x.mean()"),
    ("lr", 'self.opt.param_groups[0]["lr"]'),
    ("some", "x.mean() if batch_idx % 2 else None"),
    ("some", "None"),
    ("text", '"x"'),
    ("batch", "self.context.current_train_batch()"),
    ("epoch", "self.context.current_train_epoch()"),
    ("size", "self.context.get_per_slot_batch_size()"),
    ("whole", "self.context.get_global_batch_size()"),
    ("rank", "self.context.distributed.get_rank()"),
    ("lr", "self.rate"),
    ("seen", "self.seen"),
)
BY_HAND = (
    'for group in self.opt.param_groups:\n    group["lr"] = {lr} * 0.9 ** epoch_idx\n',
    'self.opt.param_groups[0]["lr"] = {lr} * min(1.0, (batch_idx + 1) / 5)\n',
    "set_rate(self.opt, {lr} / (epoch_idx + 1))\n",
    "if self.context.is_epoch_start():\n    set_rate(self.opt, {lr} / (epoch_idx + 1))\n",
)


class _Spread:
    def __init__(self, draw: Random) -> None:
        self.draw = draw
        self.parts: list[str] = []
        self.init: list[str] = []
        self.methods: list[str] = []
        self.bases: list[str] = []
        self.hparams = "self.hparams"
        self.config: dict[str, Any] = {}

    def chance(self, share: float) -> bool:
        return self.draw.random() < share

    def pick(self, options: Any) -> Any:
        return self.draw.choice(options)

    def method(self, header: str, body: str, decorator: str = "") -> None:
        self.methods.append(f"{decorator}def {header}:\n{textwrap.indent(body, ' ' * 4)}")

    def part(self, header: str, body: str) -> None:
        self.parts.append(f"\n{header}:\n{textwrap.indent(body, ' ' * 4)}\n")

    def told(self) -> tuple[str, str, str]:
        parameter, given, asked = self.pick(TOLD)
        return parameter, given.format(context="context", hparams=self.hparams), asked

    def hparam(self, context: str = "self.context") -> str:
        return self.pick(
            (
                f'{context}.get_hparam("lr")',
                'self.hparams["lr"]',
                f'{context}.get_hparams()["lr"]',
            )
        )

    def model(self) -> None:
        parameter, given, asked = self.told()
        width, dropout = (f'{asked.format("model")}["{name}"]' for name in ("width", "dropout"))
        self.parts.append("\n" + NET.format(parameters=parameter, width=width, dropout=dropout))
        made = f"Net({given})"
        if self.chance(0.3):
            self.part(f"def build_net({parameter})", f"net = Net({parameter})\nreturn net\n")
            made = f"build_net({given})"
        self.init.append(f"self.model = context.wrap_model({made})\n")

    def optimizer(self) -> None:
        parameter, given, asked = self.told()
        of_name = f"getattr(torch.optim, {asked.format('optimizer')})"
        cls = self.pick(("torch.optim.AdamW", "torch.optim.SGD", of_name))
        body = f"return {cls}(model.parameters(), lr={asked.format('lr')})\n"
        kind = self.pick(("helper", "helper", "wrapping", "method", "table"))
        if kind == "table":
            body = f"if {asked.format('optimizer')} == 'SGD':\n    cls = torch.optim.SGD\n"
            body += "else:\n    cls = torch.optim.Adam\n"
            body += f"return cls(model.parameters(), {asked.format('lr')})\n"
        if kind == "wrapping":
            first = "context, " * (parameter != "context")
            self.part(
                f"def make_optimizer({first}model, {parameter})",
                body.replace("return ", "return context.wrap_optimizer(").replace("\n", ")\n"),
            )
            call = f"make_optimizer({first}self.model, {given})"
            self.init.append(f"self.opt = {call}\n")
            return
        if kind == "method":
            self.method(f"make_optimizer(self, model, {parameter})", body)
            call = f"self.make_optimizer(self.model, {given})"
        else:
            self.part(f"def make_optimizer(model, {parameter})", body)
            call = f"make_optimizer(self.model, {given})"
        self.init.append(f"self.opt = context.wrap_optimizer({call})\n")

    def scheduler(self) -> None:
        if self.chance(0.4):
            return
        parameter, given, asked = self.told()
        made = self.pick(
            (
                "torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)",
                "torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / "
                f"{asked.format('warmup')}))",
                f"torch.optim.lr_scheduler.StepLR(optimizer, {asked.format('warmup')}, 0.5)",
                "Warmup(optimizer, 3)",
            )
        )
        if "Warmup" in made:
            self.parts.append(
                "\nclass Warmup(torch.optim.lr_scheduler.LambdaLR):\n"
                "    def __init__(self, optimizer, steps):\n"
                "        super().__init__(optimizer, lambda s: min(1.0, (s + 1) / steps))\n\n"
            )
        mode = self.pick(("STEP_EVERY_EPOCH", "STEP_EVERY_BATCH", "STEP_EVERY_OPTIMIZER_STEP"))
        mode = f"LRScheduler.StepMode.{mode}"
        self.part(f"def make_scheduler(optimizer, {parameter})", f"return {made}\n")
        call = f"context.wrap_lr_scheduler(make_scheduler(self.opt, {given}), {mode})\n"
        if self.chance(0.2):
            call = (
                f"context.wrap_lr_scheduler(make_scheduler(self.opt, {given}), step_mode={mode})\n"
            )
        line = self.pick(("self.schedule = ", "")) + call
        if self.chance(0.2):
            line = f'if context.get_hparam("decays"):\n    {line}'
        self.init.append(line)

    def loss(self) -> str:
        loss = self.pick(LOSSES)
        if "criterion" in loss:
            self.init.append("self.criterion = nn.SmoothL1Loss()\n")
        elif "self.loss" in loss:
            kind = self.pick(("static", "class", "mixin", "method"))
            body = "return nn.functional.l1_loss(output, y)\n"
            if kind == "mixin":
                self.parts.append(
                    "\nclass Losses:\n    def loss(self, output, y):\n"
                    "        return self.weight * nn.functional.l1_loss(output, y)\n\n"
                )
                self.init.append("self.weight = 2.0\n")
                self.bases.append("Losses")
            elif kind == "static":
                self.method("loss(output, y)", body, "@staticmethod\n")
            elif kind == "class":
                self.method("loss(cls, output, y)", body, "@classmethod\n")
            else:
                self.method("loss(self, output, y)", body)
        elif "squared" in loss:
            self.part("def squared(output, y)", "return ((output - y) ** 2).mean()\n")
        return loss

    def batches(self) -> None:
        body = "x, y = batch\n"
        if self.chance(0.25):
            by_hand = self.pick(BY_HAND).format(lr=self.hparam())
            if "set_rate" in by_hand:
                self.part(
                    "def set_rate(optimizer, lr)",
                    'for group in optimizer.param_groups:\n    group["lr"] = lr\n',
                )
            body += by_hand
        loss = self.loss()
        metrics = [("loss", "loss"), *self.draw.sample(AUX, self.pick((0, 0, 1, 2)))]
        if any("rate" in value for _, value in metrics):
            self.method("rate(self)", 'return self.opt.param_groups[0]["lr"]\n', "@property\n")
        if any("seen" in value for _, value in metrics):
            self.init.append("self.seen = 0\n")
            body += "self.seen += len(x)\n"
        body += f"output = self.model(x)\nloss = {loss}\n"
        kind = self.pick(("plain", "plain", "helper", "method", "noise"))
        step = "self.context.backward(loss)\nself.context.step_optimizer(self.opt)\n"
        if kind == "helper":
            self.part(
                "def update(context, loss, optimizer)",
                "context.backward(loss)\ncontext.step_optimizer(optimizer)\n",
            )
            step = "update(self.context, loss, self.opt)\n"
        elif kind == "method":
            self.method("update(self, loss)", step)
            step = "self.update(loss)\n"
        elif kind == "noise":
            body = body.replace("output =", "x = x + 0.01 * torch.rand_like(x)\noutput =")
        annotated = self.chance(0.3)
        header = "train_batch(self, batch, epoch_idx, batch_idx)"
        if annotated:
            header = "train_batch(self, batch: TorchData, epoch_idx: int, batch_idx: int)"
        self.method(header, f"{body}{step}return {_dict(metrics)}\n")
        evaluated = [("val", f"{loss}")]
        if self.chance(0.3):
            evaluated.append(
                self.pick((("rows", "len(x)"), ("some", "None"), ("loss", "output.std()")))
            )
        body = f"x, y = batch\noutput = self.model(x)\nreturn {_dict(evaluated)}\n"
        self.method("evaluate_batch(self, batch)", body)

    def callback(self) -> None:
        if not self.chance(0.3):
            return
        given, stored = self.pick(
            (("self", "trial"), ("self.opt", "opt"), ("self.context", "context"))
        )
        effect = {
            "trial": 'for group in self.trial.opt.param_groups:\n    group["lr"] *= 0.9\n',
            "opt": 'self.opt.param_groups[0]["lr"] *= 0.8\n',
            "context": 'self.rate = self.context.get_hparam("lr")\n',
        }[stored]
        hook = self.pick(
            ("on_training_epoch_start(self, epoch_idx)", "on_validation_end(self, metrics)")
        )
        self.parts.append(
            f"\nclass Watch(PyTorchCallback):\n    def __init__(self, {stored}):\n"
            f"        self.{stored} = {stored}\n\n    def {hook}:\n"
            f"{textwrap.indent(effect, ' ' * 8)}\n"
        )
        self.method("build_callbacks(self)", f'return {{"watch": Watch({given})}}\n')

    def loaders(self) -> None:
        count = self.pick((8, 9, 12))
        options = self.pick(
            (
                "",
                ", shuffle=True",
                ", sampler=Backwards(data)",
                ", drop_last=True",
                ", sampler=torch.utils.data.RandomSampler(data)",
                ", sampler=torch.utils.data.SubsetRandomSampler(range(6))",
                ", num_workers=0, pin_memory=False",
                ", collate_fn=collate",
            ),
        )
        if "collate_fn" in options:
            self.part(
                "def collate(items)", "x, y = zip(*items)\nreturn torch.stack(x), torch.stack(y)\n"
            )
        kind = self.pick(("here", "function", "class", "split"))
        size = "self.context.get_per_slot_batch_size()"
        if kind == "here":
            self.method(
                "build_training_data_loader(self)",
                f"data = rows({count})\nreturn DataLoader(data, batch_size={size}{options})\n",
            )
            self.method(
                "build_validation_data_loader(self)", f"return DataLoader(rows(6), {size})\n"
            )
        elif kind == "function":
            parameter, given, asked = self.told()
            given = given.replace("context", "self.context", 1) if "context" in given else given
            own = asked.format("global_batch_size")
            self.part(
                f"def make_loader(count, {parameter})",
                f"data = rows(count)\nreturn DataLoader(data, batch_size={own}{options})\n",
            )
            self.method(
                "build_training_data_loader(self)", f"return make_loader({count}, {given})\n"
            )
            self.method(
                "build_validation_data_loader(self)", f"return DataLoader(rows(6), {size})\n"
            )
        elif kind == "class":
            self.parts.append(
                "\nclass Data:\n    def __init__(self, context):\n        self.context = context\n"
                "        self.size = context.get_per_slot_batch_size()\n\n"
                f"    def training(self):\n        data = rows({count})\n"
                f"        return DataLoader(data, batch_size=self.size{options})\n\n"
                "    def validation(self):\n        return DataLoader(rows(6), batch_size="
                f"{self.pick(('self.size', size))})\n\n"
            )
            self.init.append("self.data = Data(context)\n")
            self.method("build_training_data_loader(self)", "return self.data.training()\n")
            self.method("build_validation_data_loader(self)", "return self.data.validation()\n")
        else:
            split = f"torch.utils.data.random_split(rows({count + 6}), [{count}, 6])"
            self.init.append(f"self.training, self.held = {split}\n")
            self.method(
                "build_training_data_loader(self)",
                f"data = self.training\nreturn DataLoader(data, batch_size={size}{options})\n",
            )
            self.method(
                "build_validation_data_loader(self)", f"return DataLoader(self.held, {size})\n"
            )


def _dict(items: list[tuple[str, str]]) -> str:
    return f"{{{', '.join(f'{chr(34)}{name}{chr(34)}: {value}' for name, value in items)}}}"


def spread(draw: Random) -> tuple[dict[str, str], dict[str, Any]]:
    """The sources of a trial by file name, with ``NUMBER`` for its number, and its config."""
    trial = _Spread(draw)
    base = draw.random() < 0.25
    trial.model()
    trial.optimizer()
    trial.scheduler()
    trial.batches()
    trial.callback()
    trial.loaders()
    first = "self.context = context\nself.hparams = context.get_hparams()\n"
    parent = "PyTorchTrial"
    if base:
        parent = "BaseTrial"
        trial.parts.append(
            "\nclass BaseTrial(PyTorchTrial):\n    def __init__(self, context):\n"
            + textwrap.indent(draw.choice(("super().__init__(context)\n", "")) + first, " " * 8)
            + "\n"
        )
        first = "super().__init__(context)\n"
    elif draw.random() < 0.3 and not trial.bases:
        first = f"super().__init__(context)\n{first}"
    annotation = draw.choice(("", ": PyTorchTrialContext"))
    init = f"def __init__(self, context{annotation}):\n"
    init += textwrap.indent(first + "".join(trial.init), " " * 4)
    methods = "\n".join(textwrap.indent(each, " " * 4) for each in (init, *trial.methods))
    bases = ", ".join((*trial.bases, parent))
    parts = PARTS + "".join(dict.fromkeys(trial.parts))
    source = f"{HEADER}\nclass Composed({bases}):\n{methods}"
    config: dict[str, Any] = {
        "hyperparameters": HPARAMS,
        "entrypoint": "model_def_NUMBER:Composed",
        "searcher": {"name": "single", "metric": "val", "max_length": {"batches": 14}},
        **trial.config,
    }
    return {"model_def_NUMBER.py": source, "parts_NUMBER.py": parts}, config

"""Random drafts of trials: models, optimizers, schedulers, callbacks, metrics and loaders of users.

Each form is optional, and combines with the others. Every draft trains on Determined.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

HEADER = """\
import torch
import torchmetrics
from determined.pytorch import (
    DataLoader,
    LRScheduler,
    MetricReducer,
    PyTorchCallback,
    PyTorchTrial,
    Reducer,
)
from torch import nn


def rows(count):
    generator = torch.Generator().manual_seed(count)
    x = torch.randn(count, 3, generator=generator)
    return torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True).expand(-1, 3))


def spread(values):
    return max(values) - min(values) if values else 0.0


class Mean(MetricReducer):
    def __init__(self):
        self.reset()

    def reset(self):
        self.total, self.count = 0.0, 0

    def update(self, value):
        self.total += float(value)
        self.count += 1

    def per_slot_reduce(self):
        return self.total, self.count

    def cross_slot_reduce(self, per_slot_metrics):
        totals, counts = zip(*per_slot_metrics)
        return sum(totals) / max(sum(counts), 1)
"""
NETS = (
    "nn.Linear(3, 3)",
    "nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.3), nn.Linear(4, 3))",
    "nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Linear(4, 3))",
)
OPTIMIZERS = ("SGD({}, lr={}, momentum=0.5)", "AdamW({}, lr={})", "SGD({}, lr={})")
RATES = ('context.get_hparam("lr")', 'context.get_hparams()["lr"]', "0.05")
SCHEDULERS = (
    "StepLR({}, 2, gamma=0.5)",
    "ExponentialLR({}, 0.9)",
    "LambdaLR({}, lambda step: min(1.0, (step + 1) / 5))",
    "OneCycleLR({}, max_lr=0.2, total_steps=400)",
)
MODES = ("STEP_EVERY_EPOCH", "STEP_EVERY_BATCH", "STEP_EVERY_OPTIMIZER_STEP", "MANUAL_STEP")
BY_HAND = (
    "{}.step()",
    "if batch_idx % 3 == 2:\n    {}.step()",
    "if self.context.is_epoch_end():\n    {}.step()",
    "if self.context.is_epoch_start() and batch_idx > 0:\n    {}.step()",
)
CLIPS = (
    "",
    "",
    "",
    ", clip_grads=lambda params: nn.utils.clip_grad_norm_(params, 0.5)",
    ", lambda params: nn.utils.clip_grad_value_(params, self.context.get_hparam('clip'))",
    ", clip_grads=self.clip",
)
CLIP = "def clip(self, params):\n    nn.utils.clip_grad_norm_(params, 0.3)\n"
#: What a hook of a callback does, given the trial's parts.
EFFECTS = (
    "self.count += 1\n",
    "self.trial.scale *= 0.9\n",
    "self.trial.scale = 1 + self.count / 10\n",
    'for group in self.trial.{opt}.param_groups:\n    group["lr"] *= 0.9\n',
    "self.trial.seen.append(self.trial.scale)\n",
    "first, *_ = self.trial.{net}.parameters()\n"
    "first.requires_grad = self.count % 2 == 0\nself.count += 1\n",
)
HOOKS = {
    "on_training_start": ("",),
    "on_training_epoch_start": ("epoch_idx", "self.trial.scale = 1 + epoch_idx / 5\n"),
    "on_training_epoch_end": ("epoch_idx", "self.trial.scale = 2 - epoch_idx / 5\n"),
    "on_training_workload_end": (
        "avg_metrics, batch_metrics",
        "self.trial.scale = 1 + len(batch_metrics) / 10\n",
        'self.trial.scale = 1 + round(min(float(avg_metrics["loss0"]), 1.0), 2)\n',
        "self.trial.scale = 1 + len([n for n in avg_metrics if 'l' in n]) / 10\n",
    ),
    "on_validation_start": ("", "self.trial.validations += 1\n"),
    "on_validation_epoch_start": ("",),
    "on_validation_epoch_end": (
        "outputs",
        "self.trial.scale = 1 + len(outputs) / 10\n",
        'self.trial.scale = 1 + min(float(sum(each["val"] for each in outputs)), 1.0)\n',
    ),
    "on_validation_end": (
        "metrics",
        'self.trial.scale = 1 + min(float(metrics["val"]), 1.0)\n',
        'if metrics["val"] < self.best:\n    self.best = float(metrics["val"])\n'
        "else:\n    self.trial.scale *= 0.5\n",
        "self.trial.scale = 1 + len(metrics) / 10\n",
        "self.trial.scale = 1 + len([name for name in metrics if 'o' in name]) / 10\n",
    ),
    "on_checkpoint_save_start": ("checkpoint", 'checkpoint["mine"] = self.count\n'),
    "on_checkpoint_load_start": ("checkpoint", 'self.count = checkpoint["mine"]\n'),
}
STATE = """\
    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state_dict):
        self.count = state_dict["count"]
"""
METRICS = (
    ("mean", "x.mean()"),
    ("mean", "x.mean().item()"),
    ("scale", "self.scale"),
    ("epoch", "epoch_idx"),
    ("rows", "len(x)"),
    ("val", "x.std()"),
    ("seen", "len(self.seen)"),
    ("lr", 'self.{opt}.param_groups[0]["lr"]'),
    ("lrs", '[group["lr"] for group in self.{opt}.param_groups]'),
    ("vector", "x.mean(0).detach()"),
)
EVALUATED = (
    ("error", "(output - y).abs().mean().item()"),
    ("rows", "len(x)"),
    ("loss0", "nn.functional.l1_loss(output, y)"),
    ("per_row", "(output - y).abs().mean(1)"),
    ("validations", "self.validations"),
    ("scale", "self.scale"),
    ("mean", "float(output.mean())"),
    ("array", "output.mean().numpy()"),
)
REDUCERS = ("Reducer.SUM", "Reducer.MAX", "Reducer.AVG", "Reducer.MIN")


@dataclass
class Draft:
    """The parts of a trial, as lines of source.

    Attributes:
        nets, opts: what they are called after ``self.``.
        metrics: what train_batch returns, by name.
        config: of the experiment.
    """

    draw: Random
    above: list[str] = field(default_factory=list)
    init: list[str] = field(default_factory=list)
    methods: list[str] = field(default_factory=list)
    train: list[str] = field(default_factory=list)
    nets: list[str] = field(default_factory=list)
    opts: list[str] = field(default_factory=list)
    metrics: dict[str, str] = field(default_factory=dict)
    callbacks: list[str] = field(default_factory=list)
    config: dict[str, Any] = field(default_factory=dict)

    def chance(self, share: float) -> bool:
        return self.draw.random() < share

    def pick(self, options: Sequence[Any]) -> Any:
        return self.draw.choice(options)

    def method(self, header: str, body: str) -> None:
        """Add a method."""
        self.methods.append(f"def {header}:\n{textwrap.indent(body, ' ' * 4)}")

    def kept(self, what: str, wrap: str, made: Sequence[str]) -> list[str]:
        """Wrap what is made and keep it; returns where, after ``self.``."""
        names = "abc"[: len(made)]
        wrapped = [f"context.{wrap}({each})" for each in made]
        kind = self.pick(("attributes", "attributes", "dict", "list", "steps", "locals"))
        if kind == "dict":
            items = ", ".join(f'"{n}": {w}' for n, w in zip(names, wrapped, strict=True))
            self.init.append(f"self.{what}s = {{{items}}}\n")
            return [f'{what}s["{name}"]' for name in names]
        if kind == "list":
            self.init.append(f"self.{what}s = [{', '.join(wrapped)}]\n")
            return [f"{what}s[{index}]" for index in range(len(made))]
        if kind == "steps":
            self.init.append(f"self.{what}s = {{}}\n")
            self.init += [
                f'self.{what}s["{n}"] = {w}\n' for n, w in zip(names, wrapped, strict=True)
            ]
            return [f'{what}s["{name}"]' for name in names]
        for index, (each, one) in enumerate(zip(made, wrapped, strict=True)):
            lines = f"self.{what}{index} = {one}\n"
            if kind == "locals":
                lines = f"{what} = {each}\nself.{what}{index} = context.{wrap}({what})\n"
            self.init.append(lines)
        return [f"{what}{index}" for index in range(len(made))]

    def wrap_models(self, count: int) -> None:
        """Wrap so many models."""
        if count > 1 and self.chance(0.15):
            made = ", ".join(f'"{n}": {self.pick(NETS)}' for n in "abc"[:count])
            self.init.append(f"self.nets = context.wrap_model(nn.ModuleDict({{{made}}}))\n")
            self.nets = [f'nets["{name}"]' for name in "abc"[:count]]
            return
        self.nets = self.kept("net", "wrap_model", [self.pick(NETS) for _ in range(count)])

    def wrap_optimizers(self, count: int) -> None:
        """Wrap so many optimizers, or one of all models."""
        shares = [[net] for net in self.nets] if count > 1 else [self.nets]
        made = []
        for share in shares:
            parameters = " + ".join(f"list(self.{net}.parameters())" for net in share)
            if len(share) == 1:
                parameters = f"self.{share[0]}.parameters()"
            if self.chance(0.2):
                groups = [f'{{"params": self.{net}.parameters()}}' for net in share]
                groups[0] = groups[0].replace("}", ', "lr": 0.02}')
                parameters = f"[{', '.join(groups)}]"
            made.append(f"torch.optim.{self.pick(OPTIMIZERS).format(parameters, self.pick(RATES))}")
        self.opts = self.kept("opt", "wrap_optimizer", made)

    def wrap_schedulers(self) -> None:
        """Wrap up to two schedulers for each optimizer."""
        number = 0
        for opt in self.opts:
            for _ in range(self.pick((0, 0, 1, 1, 2))):
                mode, frequency = self.pick(MODES), ""
                if mode != "MANUAL_STEP" and self.chance(0.3):
                    frequency = self.pick(
                        (", frequency=2", ', frequency=context.get_hparam("every")')
                    )
                made = self.pick(SCHEDULERS).format(f"self.{opt}")
                call = f"context.wrap_lr_scheduler(torch.optim.lr_scheduler.{made}, "
                call += f"LRScheduler.StepMode.{mode}{frequency})\n"
                name = f"schedule{number}"
                number += 1
                if mode != "MANUAL_STEP" and self.chance(0.25):
                    self.init.append(call)
                    continue
                self.init.append(f"self.{name} = {call}")
                if mode == "MANUAL_STEP" and self.chance(0.8):
                    self.train.append(self.pick(BY_HAND).format(f"self.{name}") + "\n")
        if self.chance(0.15):
            made = "torch.optim.lr_scheduler.ReduceLROnPlateau"
            call = f"{made}(self.{self.opts[0]}, patience=0, factor=0.5)"
            if self.chance(0.5):
                call = f"context.wrap_lr_scheduler({call}, LRScheduler.StepMode.MANUAL_STEP)"
            self.init.append(f"self.plateau = {call}\n")
            if self.chance(0.5):
                self.train.append("self.plateau.step(loss0)\n")
            else:
                body = 'self.trial.plateau.step(float(metrics["val"]))\n'
                self.callback([("on_validation_end", "metrics", body)])

    def loss(self, index: int) -> str:
        """An expression for the loss of an optimizer."""
        own = self.nets[index] if len(self.opts) > 1 else self.nets[-1]
        first = self.pick(("x", "x", f"self.{self.nets[0]}(x)", f"self.{self.nets[0]}(x).detach()"))
        if len(self.nets) > 1 and len(self.opts) == 1:
            first = f"self.{self.nets[0]}(x)"
        called = f"self.{own}({first})" if own != self.nets[0] or first == "x" else f"self.{own}(x)"
        return self.pick(
            (
                f"nn.functional.mse_loss({called}, y)",
                f"(({called} - y) ** 2).mean()",
                f"self.scale * nn.L1Loss()({called}, y)",
                f"self.scale * nn.functional.smooth_l1_loss({called} + 0.01 * "
                "torch.randn_like(x), y)",
            )
        )

    def step(self, index: int) -> str:
        """The lines that train by one optimizer."""
        opt, loss = f"self.{self.opts[index]}", f"loss{index}"
        clip = self.pick(CLIPS)
        if "self.clip" in clip and CLIP not in self.methods:
            self.methods.append(CLIP)
        step = f"self.context.step_optimizer({opt}{clip})\n"
        lines = f"{loss} = {self.loss(index)}\n"
        kind = self.pick(("", "", "", "zero", "zero before", "clip", "half", "every", "twice"))
        back = f"self.context.backward({loss})\n"
        if kind == "zero":
            step = f"self.context.step_optimizer({opt}{clip}, auto_zero_grads=False)\n"
            step += f"{opt}.zero_grad()\n"
        elif kind == "zero before":
            back = f"{opt}.zero_grad()\n{back}"
        elif kind == "clip":
            net = self.nets[index if len(self.opts) > 1 else 0]
            back += f"nn.utils.clip_grad_norm_(self.{net}.parameters(), 1.0)\n"
        elif kind == "half":
            back = f"self.context.backward({loss} / 2)\n"
            step = "if (batch_idx + 1) % 2 == 0:\n" + textwrap.indent(step, "    ")
        lines += back + step
        if kind == "every":
            lines = f"{loss} = x.mean()\nif batch_idx % {self.pick((2, 3))} == 0:\n" + _in(lines)
        elif kind == "twice":
            lines = "for _ in range(2):\n" + _in(lines)
        elif self.chance(0.1):
            lines = f"try:\n{_in(lines)}finally:\n    self.seen.append(batch_idx)\n"
        if self.chance(0.2):
            self.method(f"train{index}(self, x, y, batch_idx)", f"{lines}return {loss}\n")
            lines = f"{loss} = self.train{index}(x, y, batch_idx)\n"
        self.metrics[loss] = self.pick((loss, loss, f"{loss}.item()", f"{loss}.detach()"))
        return lines

    def callback(self, hooks: Sequence[tuple[str, str, str]]) -> None:
        """Add a callback with some hooks, each as its name, parameters and body."""
        name = f"Callback{len(self.callbacks)}"
        text = f"\n\nclass {name}(PyTorchCallback):\n    def __init__(self, trial):\n"
        text += "        self.trial, self.count, self.best = trial, 0, 9.0\n"
        for hook, parameters, body in hooks:
            text += f"\n    def {hook}(self{', ' * bool(parameters)}{parameters}):\n"
            text += textwrap.indent(body, " " * 8)
        self.above.append(text + f"\n{STATE}" * self.chance(0.2))
        self.callbacks.append(name)

    def random_callback(self) -> None:
        """Add a callback with one to three hooks."""
        hooks = []
        for hook in self.draw.sample([*HOOKS], self.pick((1, 1, 2, 3))):
            parameters, *own = HOOKS[hook]
            effects = [e.format(opt=self.opts[0], net=self.nets[0]) for e in EFFECTS]
            if "checkpoint" in hook:
                # How often they are written is no matter of the trial.
                effects = []
            hooks.append((hook, parameters, self.pick([*own, *own, *effects])))
        self.callback(hooks)


def _in(text: str) -> str:
    return textwrap.indent(text, " " * 4)

"""Random trials of PEDL and of Determined 0.12, whose library builds, steps and clips."""

from __future__ import annotations

import textwrap
from random import Random
from typing import Any

HEADER = """\
import torch
{imports}
from torch import nn


def rows(count):
    generator = torch.Generator().manual_seed(count)
    x = torch.randn(count, 3, generator=generator)
    return torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True).expand(-1, 3))

"""
PEDL = """\
import pedl
from pedl.frameworks.pytorch import LRScheduler, PyTorchTrial, reset_parameters
from pedl.frameworks.pytorch.data import DataLoader"""
DETERMINED = """\
import determined as det
from determined.pytorch import (
    ClipGradsL2Norm,
    ClipGradsL2Value,
    DataLoader,
    LRScheduler,
    PyTorchCallback,
    PyTorchTrial,
    Reducer,
    reset_parameters,
)"""
NETS = (
    "nn.Linear(3, 3)",
    "nn.Sequential(nn.Linear(3, {width}), nn.Dropout({dropout}), nn.Linear({width}, 3))",
    "nn.Sequential(nn.Linear(3, {width}), nn.BatchNorm1d({width}), nn.Linear({width}, 3))",
)
OPTIMIZERS = (
    "torch.optim.SGD(model.parameters(), lr={lr}, momentum=0.5)",
    "torch.optim.AdamW(model.parameters(), {lr})",
    "torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr={lr})",
    'torch.optim.Adam([{{"params": model.parameters(), "lr": {lr}}}])',
)
SCHEDULERS = (
    "StepLR(optimizer, 2, gamma=0.5)",
    "ExponentialLR(optimizer, gamma={gamma})",
    "LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 5))",
    "OneCycleLR(optimizer, max_lr={lr}, total_steps=400)",
)
LOSSES = (
    "nn.functional.mse_loss(output, y)",
    "((output - y) ** 2).mean()",
    "self.loss(output, y)",
    "nn.SmoothL1Loss()(output + 0.01 * torch.randn_like(output), y)",
)
METRICS = (
    ("error", "(output - y).abs().mean()"),
    ("item", "(output - y).abs().mean().item()"),
    ("per_row", "(output - y).abs().mean(1)"),
    ("mean", "output.mean()"),
    ("count", "len(y)"),
)
HOOKS = (
    ("on_train_step_start", "step_id", "self.steps = step_id\n"),
    ("on_train_step_end", "step_id, metrics", "self.trial.scale = 1 + step_id / 10\n"),
    (
        "on_train_step_end",
        "step_id, metrics",
        'self.trial.scale = 1 + round(min(float(metrics["avg_metrics"]["loss"]), 1), 2)\n',
    ),
    ("on_validation_step_start", "", "self.trial.scale *= 0.9\n"),
    ("on_validation_step_end", "metrics", "self.trial.scale = 1 + len(metrics) / 10\n"),
    (
        "on_validation_step_end",
        "metrics",
        'self.trial.scale = 1 + min(float(metrics["val"]), 1.0)\n',
    ),
    (
        "on_before_optimizer_step",
        "parameters",
        "nn.utils.clip_grad_norm_(parameters, 0.2)\n",
    ),
    (
        "on_before_optimizer_step",
        "parameters",
        "for each in parameters:\n    each.grad.mul_(0.5)\n",
    ),
)
HPARAMS = {"lr": 0.05, "width": 4, "dropout": 0.2, "gamma": 0.9, "decays": True}


class _Older:
    """One trial, method by method; ``kind`` is its generation."""

    def __init__(self, draw: Random) -> None:
        self.draw = draw
        self.kind = draw.choice(("standard", "pedl", "0.12", "0.12"))
        self.is_determined = self.kind == "0.12"
        self.has_init = self.is_determined or self.chance(0.3)
        self.has_functions = not self.is_determined or self.chance(0.1)
        self.size = draw.choice(("batch_size", "global_batch_size"))
        if self.is_determined:
            self.size = "global_batch_size"
        self.hparams: dict[str, Any] = {**HPARAMS, self.size: 3}
        self.methods: list[str] = []
        self.above: list[str] = []
        self.keeps_scheduler = False

    def chance(self, share: float) -> bool:
        return self.draw.random() < share

    def pick(self, options: Any) -> Any:
        return self.draw.choice(options)

    def method(self, header: str, body: str) -> None:
        self.methods.append(f"def {header}:\n{textwrap.indent(body, ' ' * 4)}")

    def hparam(self, name: str, *, given: bool) -> str:
        """An expression for a hyperparameter, in a method that may be given all of them."""
        if given:
            return self.pick((f'hparams["{name}"]', f'hparams.get("{name}", 1)'))
        if self.is_determined:
            return self.pick(
                (f'self.context.get_hparam("{name}")', f'self.context.get_hparams()["{name}"]')
            )
        return f'pedl.get_hyperparameter("{name}")'

    def taking(self, share: float = 0.4) -> tuple[bool, str]:
        """Whether a method takes the hyperparameters, and how its parameters go on."""
        given = not self.has_init_context_only and self.chance(share)
        return given, ", hparams" * given

    @property
    def has_init_context_only(self) -> bool:
        return self.is_determined and not self.has_functions

    def build(self) -> None:
        given, more = self.taking()
        net = self.pick(NETS).format(
            width=self.hparam("width", given=given), dropout=self.hparam("dropout", given=given)
        )
        body = f"return {net}\n"
        if self.chance(0.5):
            body = f"model = {net}\n"
            body += "reset_parameters(model)\n" * self.chance(0.4)
            body += "self.model = model\n" * self.chance(0.2)
            body += "return model\n"
        self.method(f"build_model(self{more})", body)
        given, more = self.taking()
        made = self.pick(OPTIMIZERS).format(lr=self.hparam("lr", given=given))
        body = f"return {made}\n"
        if self.chance(0.3):
            body = f"optimizer = {made}\nself.opt = optimizer\nreturn optimizer\n"
        self.method(f"optimizer(self, model{more})", body)

    def scheduler(self) -> None:
        if self.chance(0.4):
            return
        given, more = self.taking()
        made = self.pick(SCHEDULERS).format(
            gamma=self.hparam("gamma", given=given), lr=self.hparam("lr", given=given)
        )
        made = f"torch.optim.lr_scheduler.{made}"
        mode = self.pick(("epoch", "batch", "manual"))
        self.keeps_scheduler = mode == "manual" or self.chance(0.2)
        words = f"step_every_{mode}=True"
        if self.is_determined and (mode == "manual" or self.chance(0.7)):
            words = f"step_mode=LRScheduler.StepMode.STEP_EVERY_{mode.upper()}"
            words = words.replace("STEP_EVERY_MANUAL", "MANUAL_STEP")
        elif mode == "manual":
            words = ""
        if self.keeps_scheduler:
            body = f"self.schedule = {made}\n"
            body += f"return LRScheduler(self.schedule{', ' * bool(words)}{words})\n"
            if mode != "manual":
                self.keeps_scheduler = False
        else:
            body = f"scheduler = {made}\nreturn LRScheduler(scheduler, {words})\n"
        if not self.keeps_scheduler and self.chance(0.2):
            body = f"if not {self.hparam('decays', given=given)}:\n    return None\n{body}"
        self.method(f"create_lr_scheduler(self, optimizer{more})", body)

    def batches(self) -> None:
        loss = self.pick(LOSSES)
        if "self.loss" in loss:
            self.method("loss(self, output, y)", "return nn.functional.l1_loss(output, y)\n")
        if self.kind == "standard":
            return self._standard(loss)
        output = self.pick(("output = model(x)\n", "output = model(x) * 1.1\n"))
        body = f"x, y = batch\n{output}loss = {self.scaled(loss)}\n"
        if self.keeps_scheduler:
            body += self.pick(
                ("self.schedule.step()\n", "if batch_idx % 3 == 2:\n    self.schedule.step()\n")
            )
        metrics = [("loss", "loss"), *self.some(METRICS[:2] + METRICS[3:])]
        if self.chance(0.2):
            metrics.append(("epoch", "epoch_idx"))
        body += f"return {_dict(metrics)}\n" if self.chance(0.8) else "return loss\n"
        header = "train_batch(self, batch, model, epoch_idx, batch_idx)"
        self.method(header, body)
        self._evaluation()

    def _evaluation(self) -> None:
        if self.chance(0.2):
            body = "total, count = 0.0, 0\nfor x, y in data_loader:\n"
            body += "    total += (model(x) - y).abs().sum().item()\n    count += len(x)\n"
            self.method(
                "evaluate_full_dataset(self, data_loader, model)",
                body + 'return {"val": total / count}\n',
            )
            return
        metrics = [("val", "nn.functional.mse_loss(output, y)"), *self.some(METRICS)]
        body = f"x, y = batch\noutput = model(x)\nreturn {_dict(metrics)}\n"
        self.method("evaluate_batch(self, batch, model)", body)
        if self.is_determined and self.chance(0.25):
            self.method(
                "evaluation_reducer(self)",
                f"return {self.pick(('Reducer.SUM', 'Reducer.MAX', 'Reducer.AVG'))}\n",
            )

    def _standard(self, loss: str) -> None:
        loss = self.scaled(loss)
        as_dict = self.chance(0.5)
        value = '{"loss": loss, "half": loss / 2}' if as_dict else "loss"
        body = "output, y = predictions, labels\n"
        self.method("losses(self, predictions, labels)", f"{body}loss = {loss}\nreturn {value}\n")
        of_loss = 'losses["loss"]' if as_dict else "losses"
        header = "(self, predictions, labels, losses)"
        if self.chance(0.6):
            metrics = self.some(METRICS[:2] + METRICS[3:]) or [("error", METRICS[0][1])]
            self.method(f"training_metrics{header}", f"{body}return {_dict(metrics)}\n")
        metrics = [("val", self.pick((of_loss, METRICS[0][1]))), *self.some(METRICS)]
        self.method(f"validation_metrics{header}", f"{body}return {_dict(metrics)}\n")
        if self.chance(0.7):
            given, more = self.taking()
            self.method(
                f"batch_size(self{more})", f"return {self.hparam(self.size, given=given)}\n"
            )

    def scaled(self, loss: str) -> str:
        return f"self.scale * {loss}" if self.callbacks else loss

    def some(self, options: Any) -> list[tuple[str, str]]:
        return self.draw.sample(options, self.pick((0, 1, 2)))

    def init(self) -> None:
        self.callbacks: list[str] = []
        if not self.has_init:
            return
        name = "context" if self.is_determined else "hparams"
        body = f"self.{name} = {name}\n"
        if self.is_determined:
            for _ in range(self.pick((0, 0, 1, 2))):
                self.callback()
            if self.callbacks:
                body += "self.scale = 1.0\n"
            annotation = self.pick(("", ": det.TrialContext"))
            self.method(f"__init__(self, {name}{annotation})", body)
        else:
            self.has_init = False

    def callback(self) -> None:
        name = f"Callback{len(self.above)}"
        hooks = {each[0]: each for each in self.draw.sample(HOOKS, self.pick((1, 2)))}
        text = f"\nclass {name}(PyTorchCallback):\n    def __init__(self, trial):\n"
        text += "        self.trial, self.steps = trial, 0\n"
        for hook, parameters, body in hooks.values():
            text += f"\n    def {hook}(self{', ' * bool(parameters)}{parameters}):\n"
            text += textwrap.indent(body, " " * 8)
        self.above.append(f"{text}\n")
        self.callbacks.append(f"{name}(self)")

    def clips(self) -> None:
        if self.is_determined and self.chance(0.3):
            made = self.pick(("ClipGradsL2Norm({})", "ClipGradsL2Value({})"))
            value = self.pick(("0.3", 'self.context.get_hparam("clip")'))
            self.hparams["clip"] = 0.2
            self.callbacks.append(made.format(value))
        elif self.chance(0.3):
            self.hparams[self.pick(("clip_grad_l2_norm", "clip_grad_val"))] = 0.2
        if self.callbacks:
            made = ", ".join(f'"c{i}": {each}' for i, each in enumerate(self.callbacks))
            self.method("build_callbacks(self)", f"return {{{made}}}\n")

    def loaders(self) -> None:
        options = self.pick(("", ", shuffle=True", ", shuffle=True, drop_last=True"))
        training = self.pick((8, 9, 12, 14))
        # Metrics of rows are reduced where every batch has as many.
        held = 6 if "mean(1)" in "".join(self.methods) else self.pick((6, 7))
        first, second = f"rows({training})", f"rows({held})"
        if not self.has_functions:
            size = "self.context.get_per_slot_batch_size()"
            for name, data, more in (("training", first, options), ("validation", second, "")):
                made = f"return DataLoader({data}, batch_size={size}{more})\n"
                self.method(f"build_{name}_data_loader(self)", made)
            return
        size = self.pick(
            (f'hparams["{self.size}"]', f'experiment_config["hyperparameters"]["{self.size}"]')
        )
        if not self.is_determined and self.chance(0.2):
            size = f'pedl.get_hyperparameter("{self.size}")'
        body = f"size = {size}\n"
        if self.chance(0.5):
            body += f"training = DataLoader({first}, batch_size=size{options})\n"
            body += f"validation = DataLoader({second}, batch_size=size)\n"
            body += "return training, validation\n"
        else:
            body += f"return (\n    DataLoader({first}, batch_size=size{options}),\n"
            body += f"    DataLoader({second}, batch_size=size),\n)\n"
        header = "def make_data_loaders(experiment_config, hparams):\n"
        self.above.append(f"\n{header}{textwrap.indent(body, ' ' * 4)}\n")


def _dict(items: list[tuple[str, str]]) -> str:
    return f"{{{', '.join(f'{chr(34)}{name}{chr(34)}: {value}' for name, value in items)}}}"


def older(draw: Random) -> tuple[str, dict[str, Any]]:
    """The source of a trial, and its config."""
    trial = _Older(draw)
    trial.init()
    trial.build()
    trial.scheduler()
    trial.batches()
    trial.clips()
    trial.loaders()
    imports = DETERMINED if trial.is_determined else PEDL
    methods = "\n".join(textwrap.indent(each, " " * 4) for each in trial.methods)
    source = HEADER.format(imports=imports) + "".join(trial.above)
    source += f"\nclass Composed(PyTorchTrial):\n{methods}"
    config: dict[str, Any] = {
        "hyperparameters": trial.hparams,
        "entrypoint": "model_def:Composed",
        "searcher": {"name": "single", "metric": "val", "max_steps": 4},
    }
    if "on_train_step_end" not in source:
        config["batches_per_step"] = draw.choice((2, 3, 5))
    if not trial.is_determined:
        functions = {"trial_class": "Composed", "data_loaders_function": "make_data_loaders"}
        config["entrypoints"] = {k: f"model_def:{v}" for k, v in functions.items()}
        del config["entrypoint"]
    if draw.random() < 0.15:
        config["optimizations"] = {"aggregation_frequency": 2}
    return source, config

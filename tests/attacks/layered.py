"""Random trials that are made of several classes: bases, mixins, and what each adds by super()."""

from __future__ import annotations

import textwrap
from random import Random
from typing import Any

HEADER = """\
import torch
from determined.pytorch import (
    DataLoader,
    LRScheduler,
    PyTorchCallback,
    PyTorchTrial,
    Reducer,
)
from torch import nn
"""
ROWS = """

def rows(count):
    generator = torch.Generator().manual_seed(count)
    x = torch.randn(count, 3, generator=generator)
    return torch.utils.data.TensorDataset(x, x.sum(1, keepdim=True).expand(-1, 3))


class Watch(PyTorchCallback):
    def __init__(self, trial):
        self.trial, self.count = trial, 0

    def on_training_epoch_start(self, epoch_idx):
        self.count += 1
        self.trial.weight = 1 + self.count / 10

    def state_dict(self):
        return {"count": self.count}

    def load_state_dict(self, state_dict):
        self.count = state_dict["count"]
"""
HPARAMS: dict[str, Any] = {"global_batch_size": 3, "lr": 0.05, "width": 4, "aux": 0.5}
NETS = (
    "nn.Linear(3, 3)",
    "nn.Sequential(nn.Linear(3, {width}), nn.Tanh(), nn.Linear({width}, 3))",
    "nn.Sequential(nn.Linear(3, {width}), nn.Dropout(0.2), nn.Linear({width}, 3))",
)
WIDTHS = ('self.context.get_hparam("width")', 'self.hparams["width"]', "self.width", "4")
RATES = ('self.context.get_hparam("lr")', 'self.hparams["lr"]', "self.rate", "self.rate_of()")
STEPS = (
    "self.context.backward(loss)\nself.context.step_optimizer(self.opt)\n",
    "self.update(loss)\n",
    "self.context.backward(loss)\nself.context.step_optimizer(\n"
    "    self.opt, clip_grads=lambda params: nn.utils.clip_grad_norm_(params, 0.5)\n)\n",
    "self.context.backward(loss)\nself.context.step_optimizer(self.opt, clip_grads=self.clip)\n",
)
MODES = ("STEP_EVERY_EPOCH", "STEP_EVERY_BATCH", "STEP_EVERY_OPTIMIZER_STEP")


class _Layered:
    """Two or three classes, and where each member of the trial is."""

    def __init__(self, draw: Random) -> None:
        self.draw = draw
        self.members: dict[str, list[str]] = {"Base": [], "Composed": []}
        self.mixin: list[str] = []
        self.late: list[str] = []

    def chance(self, share: float) -> bool:
        return self.draw.random() < share

    def pick(self, options: Any) -> Any:
        return self.draw.choice(options)

    def place(self, text: str, *, also_mixin: bool = False) -> None:
        """Put a member into one of the classes."""
        if also_mixin and self.chance(0.25):
            self.mixin.append(text)
        else:
            self.members[self.pick(("Base", "Base", "Composed"))].append(text)

    def init(self) -> None:
        width = self.pick(WIDTHS)
        net = self.pick(NETS).format(width=width)
        rate = self.pick(RATES)
        if "self.width" in net:
            self.place("width = 4\n")
        if rate == "self.rate":
            self.place("@property\ndef rate(self):\n    return self.context.get_hparam('lr')\n")
        elif rate == "self.rate_of()":
            self.place("def rate_of(self):\n    return self.hparams['lr']\n", also_mixin=True)
        if self.chance(0.5):
            self.place(f"def build_net(self):\n    return {net}\n", also_mixin=True)
            net = "self.build_net()"
        opt = self.pick(("SGD({}, lr={}, momentum=0.5)", "AdamW({}, lr={})"))
        opt = f"torch.optim.{opt.format('self.model.parameters()', rate)}"
        if self.chance(0.4):
            self.place(f"def build_opt(self):\n    return {opt}\n", also_mixin=True)
            opt = "self.build_opt()"
        first = "self.context = context\nself.hparams = context.get_hparams()\nself.weight = 1.0\n"
        model = f"self.model = context.wrap_model({net})\n"
        made = f"self.opt = context.wrap_optimizer({opt})\n"
        if self.chance(0.5):
            mode = self.pick(MODES)
            made += "self.schedule = context.wrap_lr_scheduler(\n"
            made += "    torch.optim.lr_scheduler.StepLR(self.opt, 2, 0.7),\n"
            made += f"    LRScheduler.StepMode.{mode},\n)\n"
        where = self.pick(("base", "split", "method", "late"))
        own = ""
        if where == "split":
            base, own = first, model + made
        elif where == "method":
            base = f"{first}self.set_up()\n"
            body = (model + made).replace("context.wrap", "self.context.wrap")
            self.place(f"def set_up(self):\n{_in(body)}")
        elif where == "late":
            base, own = first + model, made
        else:
            base = first + model + made
        head = "super().__init__(context)\n" if self.chance(0.3) else ""
        self.members["Base"].insert(0, f"def __init__(self, context):\n{_in(head + base)}")
        if own or self.chance(0.4):
            more = self.pick(("", 'self.aux = context.get_hparams().get("aux", 1.0)\n'))
            more += 'self.name = "composed"\n' * self.chance(0.2)
            call = self.pick(
                ("super().__init__(context)\n", "super(Composed, self).__init__(context)\n")
            )
            text = f"def __init__(self, context):\n{_in(call + own + more)}"
            self.members["Composed"].insert(0, text)
            self.has_aux = "self.aux" in more
        else:
            self.has_aux = False

    def training(self) -> None:
        loss = self.pick(("mse_loss", "l1_loss", "smooth_l1_loss"))
        called = f"self.weight * nn.functional.{loss}(self.model(x), y)"
        if self.chance(0.5):
            self.place(f"def loss_of(self, x, y):\n    return {called}\n", also_mixin=True)
            if self.chance(0.3) and "def loss_of" in "".join(self.members["Base"]):
                self.members["Composed"].append(
                    "def loss_of(self, x, y):\n    return 2 * super().loss_of(x, y)\n"
                )
            called = "self.loss_of(x, y)"
        step = self.pick(STEPS)
        if "update" in step:
            self.place(f"def update(self, loss):\n{_in(STEPS[0])}", also_mixin=True)
        elif "self.clip" in step:
            clip = "nn.utils.clip_grad_norm_(params, 0.3)"
            self.place(f"def clip(self, params):\n    {clip}\n", also_mixin=True)
        returned = self.pick(
            ('{"loss": loss}', '{"loss": loss, "epoch": epoch_idx}', "self.report(loss, x)", "loss")
        )
        if "report" in returned:
            body = 'return {"loss": loss, "mean": x.mean()}\n'
            self.place(f"def report(self, loss, x):\n{_in(body)}", also_mixin=True)
        header = "def train_batch(self, batch, epoch_idx, batch_idx):\n"
        body = f"x, y = batch\nloss = {called}\n{step}return {returned}\n"
        where = self.pick(("Base", "Base", "Composed"))
        self.members[where].append(header + _in(body))
        if where == "Base" and returned != "loss" and self.chance(0.4):
            body = "metrics = super().train_batch(batch, epoch_idx, batch_idx)\n"
            body += self.pick(
                ('metrics["batch"] = batch_idx\n', 'metrics["twice"] = 2 * metrics["loss"]\n', "")
            )
            body = self.pick((f"batch = self.changed(batch)\n{body}", body))
            if "changed" in body:
                made = "x, y = batch\nreturn x + 0.1, y\n"
                self.place(f"def changed(self, batch):\n{_in(made)}", also_mixin=True)
            self.members["Composed"].append(f"{header}{_in(body + 'return metrics' + chr(10))}")

    def evaluation(self) -> None:
        metrics = {"val": "nn.functional.mse_loss(output, y)"}
        if self.chance(0.3):
            metrics["rows"] = "len(x)"
        if self.has_aux and self.chance(0.5):
            metrics["aux"] = "self.aux"
        items = ", ".join(f'"{name}": {value}' for name, value in metrics.items())
        body = f"x, y = batch\noutput = self.model(x)\nreturn {{{items}}}\n"
        where = self.pick(("Base", "Base", "Composed"))
        self.members[where].append(f"def evaluate_batch(self, batch):\n{_in(body)}")
        if where == "Base" and self.chance(0.4):
            body = self.pick(
                (
                    'found = super().evaluate_batch(batch)\nfound["more"] = 1.0\nreturn found\n',
                    "return {**super().evaluate_batch(batch), 'loss': batch[0].mean()}\n",
                    "return super().evaluate_batch(batch)\n",
                )
            )
            self.members["Composed"].append(f"def evaluate_batch(self, batch):\n{_in(body)}")
        if self.chance(0.2):
            reducer = self.pick(("Reducer.SUM", "Reducer.MAX", "Reducer.AVG"))
            self.place(f"def evaluation_reducer(self):\n    return {reducer}\n")

    def rest(self) -> None:
        count, options = self.pick((8, 9, 12)), self.pick(("", ", shuffle=True"))
        size = "self.context.get_per_slot_batch_size()"
        data = f"rows({count})"
        if self.chance(0.4):
            self.place(f"def data(self):\n    return {data}\n", also_mixin=True)
            data = "self.data()"
        made = f"return DataLoader({data}, batch_size={size}{options})\n"
        self.place(f"def build_training_data_loader(self):\n{_in(made)}", also_mixin=True)
        made = "return DataLoader(rows(6), batch_size=3)\n"
        self.place(f"def build_validation_data_loader(self):\n{_in(made)}", also_mixin=True)
        if self.chance(0.3):
            text = 'def build_callbacks(self):\n    return {"watch": Watch(self)}\n'
            self.place(text, also_mixin=True)


def _in(text: str) -> str:
    return textwrap.indent(text, " " * 4)


def layered(draw: Random) -> tuple[dict[str, str], dict[str, Any]]:
    """The sources of a trial by file name, with ``NUMBER`` for its number, and its config."""
    trial = _Layered(draw)
    trial.init()
    trial.training()
    trial.evaluation()
    trial.rest()

    def written(name: str, bases: str, members: list[str]) -> str:
        return f"\n\nclass {name}({bases}):\n" + ("\n".join(map(_in, members)) or "    pass\n")

    above = ROWS
    base = draw.choice(("PyTorchTrial", "PyTorchTrial", "Parts, PyTorchTrial"))
    own = "Base"
    if trial.mixin:
        # What PyTorchTrial has comes before what a mixin after it has.
        is_free = "build_" not in "".join(trial.mixin) and draw.random() < 0.5
        own = "Base, Parts" if is_free else "Parts, Base"
        own = own if base == "PyTorchTrial" else "Base"
        above += written("Parts", "", trial.mixin).replace("()", "", 1)
    else:
        base = "PyTorchTrial"
    above += written("Base", base, trial.members["Base"])
    source = written("Composed", own, trial.members["Composed"])
    if draw.random() < 0.2 and "self.opt =" in trial.members["Base"][0]:
        source += written("Other", "Base", ["tag = 1\n"])
    config: dict[str, Any] = {
        "hyperparameters": HPARAMS,
        "entrypoint": "model_def_NUMBER:Composed",
        "searcher": {"name": "single", "metric": "val", "max_length": {"batches": 14}},
    }
    if draw.random() < 0.4:
        return {"model_def_NUMBER.py": HEADER + above + source}, config
    imports = f"{HEADER}\nfrom parts_NUMBER import *\n"
    return {"model_def_NUMBER.py": imports + source, "parts_NUMBER.py": HEADER + above}, config

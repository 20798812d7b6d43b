"""Trials whose ``__init__`` does unusual things in a random order, migrated and compared.

What an optimizer holds when training begins, what it makes of the weights in a few steps, and what
is drawn by then, must not depend on where the migrated module makes it. Nothing but the trial's
own code runs, so that hundreds of them take a minute.
"""

from __future__ import annotations

import contextlib
import copy
import inspect
import io
import random
import re
import sys
import textwrap
import types
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytorch_lightning as pl
import torch

from tests.attacks.migrations import unmarked
from tests.attacks.orders import (
    ATTRIBUTES,
    CALLBACKS,
    CLASSES,
    FIRST,
    FUNCTIONS,
    HEADER,
    LINES,
    METHODS,
    OPTIMIZERS,
    PARAMS,
    RATES,
    SCHEDULERS,
    TRIAL,
)

AT_ONCE = 40
STEPS = 3
HPARAMS: dict[str, Any] = {"global_batch_size": 2, "lr": 0.05, "flag": True, "opt": {"lr": 0.03}}


def attack(draw: Random, folder: Path) -> None:
    """Write, migrate and compare some trials.

    Raises:
        AssertionError: a module without a mark does something else than its trial.
    """
    wrong = [text for number in range(AT_ONCE) if (text := _differs(draw, folder / str(number)))]
    assert not wrong, "\n\n".join(wrong)


#: How many were compared, how many of these have their optimizer in configure_optimizers, how many
#: have marks, and how many trials do not run.
COUNTS = {"compared": 0, "moved": 0, "marked": 0, "broken": 0}


def _differs(draw: Random, home: Path) -> str:
    """What is wrong with a migrated trial; ``""`` if nothing is."""
    source = trial(draw)
    try:
        before = _done(source, is_migrated=False)
    except Exception:
        COUNTS["broken"] += 1
        return ""
    made = unmarked(source, home)
    if not made:
        COUNTS["marked"] += 1
        return ""
    COUNTS["compared"] += 1
    COUNTS["moved"] += "self.opt =" not in made.partition("def configure_optimizers")[0]
    try:
        after = _done(made, is_migrated=True)
    except Exception as error:
        return f"{type(error).__name__}: {error}\n{source}\n{made}"
    names = [name for name in before if before[name] != after.get(name)]
    said = [f"{name}: {before[name]!r} became {after.get(name)!r}"[:400] for name in names]
    return "\n".join([*said, source, made]) if said else ""


def trial(draw: Random) -> str:
    """The source of a trial."""
    optimizer = draw.choice(OPTIMIZERS).replace("PARAMS", draw.choice(PARAMS))
    optimizer = optimizer.replace("RATE", draw.choice(RATES))
    lines = draw.sample(LINES, draw.choice((1, 2, 2, 3, 4, 6)))
    at = draw.randrange(len(lines) + 1) if draw.random() < 0.3 else draw.choice((0, 0, 1))
    lines.insert(at, optimizer)
    if draw.random() < 0.4:
        lines.insert(draw.randrange(at + 1, len(lines) + 1), draw.choice(SCHEDULERS))
    init = textwrap.indent("".join(f"{line}\n" for line in (FIRST, *lines)), " " * 8)
    callbacks = draw.choice(CALLBACKS) if draw.random() < 0.2 else ""
    # What is not asked for is not there: what one class has forbids more than it.
    methods = _needed(METHODS, init + callbacks)
    whole = TRIAL.format(init=init, methods=f"{ATTRIBUTES}{methods}{callbacks}")
    return HEADER + _needed((*FUNCTIONS, *CLASSES), whole) + whole


def _needed(parts: Sequence[str], text: str) -> str:
    """The functions or classes that some code names, and these name."""
    found = [each for each in parts if re.search(rf"\b{_name(each)}\b", text)]
    more = [each for each in parts if re.search(rf"\b{_name(each)}\b", "".join([text, *found]))]
    return "".join(more)


def _name(text: str) -> str:
    match = re.search(r"^ *(?:def|class) (\w+)", text, re.M)
    return match[1] if match else ""


class _Context:
    """What a trial gets of Determined, as far as these ask for it."""

    def __init__(self) -> None:
        self.hparams = copy.deepcopy(HPARAMS)
        self.optimizers: list[torch.optim.Optimizer] = []
        self.schedulers: list[Any] = []

    def get_hparams(self) -> dict[str, Any]:
        return self.hparams

    def get_hparam(self, name: str) -> Any:
        return self.hparams[name]

    def wrap_model(self, model: torch.nn.Module) -> torch.nn.Module:
        return model

    def wrap_optimizer(self, optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
        self.optimizers.append(optimizer)
        return optimizer

    def wrap_lr_scheduler(self, scheduler: Any, step_mode: object) -> Any:
        self.schedulers.append(scheduler)
        return scheduler


def _done(source: str, *, is_migrated: bool) -> dict[str, Any]:
    """What is there when training begins, and after a few steps."""
    # The first module of Lightning draws.
    pl.LightningModule()
    known = types.ModuleType("ordered_trial")
    sys.modules["ordered_trial"] = known
    _seed()
    dtype = torch.get_default_dtype()
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            exec(compile(source, "ordered_trial.py", "exec"), known.__dict__)
            return _trained(known.Trial, is_migrated=is_migrated)
    finally:
        torch.set_grad_enabled(True)
        torch.set_default_dtype(dtype)


def _trained(cls: Any, *, is_migrated: bool) -> dict[str, Any]:
    if is_migrated:
        parameters = inspect.signature(cls).parameters.values()
        is_open = any(each.kind is each.VAR_KEYWORD for each in parameters)
        names = {each.name for each in parameters}
        hparams = copy.deepcopy(HPARAMS)
        module = cls(**{n: value for n, value in hparams.items() if is_open or n in names})
        module.configure_callbacks()
        if "setup" in vars(cls):
            module.setup("fit")
        optimizers, schedulers = _listed(module.configure_optimizers())
    else:
        context = _Context()
        module = cls(context)
        module.build_callbacks()
        optimizers, schedulers = context.optimizers, context.schedulers
    found = {f"group {n}": _group(g, module) for n, g in enumerate(_groups(optimizers))}
    found["held"] = [len(each.param_groups) for each in optimizers]
    found["drawn"] = (torch.rand(1).item(), random.random())
    plain = (bool, int, float, str)
    for name, value in vars(module).items():
        items = value if isinstance(value, (list, tuple)) else [value]
        if not name.startswith("_") and all(isinstance(each, plain) for each in items):
            found[f"self.{name}"] = value if isinstance(value, plain) else [*value]
    _seed()
    for _ in range(STEPS):
        for each in optimizers:
            each.zero_grad()
        dtype = next(module.model.parameters()).dtype
        loss = (module.model(torch.ones(2, 3, dtype=dtype)) ** 2).mean()
        if loss.requires_grad:
            loss.backward()
        for each in (*optimizers, *schedulers):
            each.step()
    found["rates"] = [group["lr"] for group in _groups(optimizers)]
    found["weights"] = [p.detach().flatten().tolist() for p in module.model.parameters()]
    return found


def _groups(optimizers: list[Any]) -> list[dict[str, Any]]:
    return [group for each in optimizers for group in each.param_groups]


def _group(group: dict[str, Any], module: Any) -> list[Any]:
    names = {id(p): name for name, p in module.model.named_parameters()}
    held = [(names.get(id(p), "?"), p.requires_grad, p.flatten().tolist()) for p in group["params"]]
    rest = {k: v for k, v in group.items() if k != "params"}
    return [held, sorted((k, str(v)) for k, v in rest.items())]


def _listed(made: Any) -> tuple[list[Any], list[Any]]:
    """The optimizers and schedulers that configure_optimizers returns."""
    if isinstance(made, dict):
        return [made["optimizer"]], [made["lr_scheduler"]["scheduler"]]
    if isinstance(made, tuple):
        return [*made[0]], [s["scheduler"] if isinstance(s, dict) else s for s in made[1]]
    return ([*made] if isinstance(made, list) else [made]), []


def _seed() -> None:
    torch.manual_seed(1)
    random.seed(1)

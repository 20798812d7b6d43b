"""Trials that do unusual things around the step of a batch, migrated and compared.

Where Lightning steps the optimizer, what stood behind the step runs before the backward pass. The
weights, what is reported and what the trial counts must be the same after each batch.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import logging
import math
import random
import sys
import textwrap
import types
import warnings
from pathlib import Path
from random import Random
from typing import Any

import pytorch_lightning as pl
import torch

from tests.attacks import steps
from tests.attacks.migrations import unmarked

AT_ONCE = 25
EPOCHS = 2
HPARAMS = {"global_batch_size": 2}

#: How many were compared, how many of these Lightning steps, how many have marks, and how many
#: trials do not run.
COUNTS = {"compared": 0, "automatic": 0, "marked": 0, "broken": 0}


def attack(draw: Random, folder: Path) -> None:
    """Write, migrate and compare some trials.

    Raises:
        AssertionError: a module without a mark does something else than its trial.
    """
    wrong = [text for number in range(AT_ONCE) if (text := _differs(draw, folder / str(number)))]
    assert not wrong, "\n\n".join(wrong)


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
    is_automatic = "automatic_optimization" not in made
    if not is_automatic and draw.random() < 0.8:
        # What is stepped where it was needs less of it.
        return ""
    COUNTS["compared"] += 1
    COUNTS["automatic"] += is_automatic
    try:
        after = _done(made, is_migrated=True)
    except Exception as error:
        return f"{type(error).__name__}: {error}\n{source}\n{made}"
    for number, (expected, found) in enumerate(zip(before, after, strict=True)):
        names = [n for n in expected if not _is_same(expected[n], found.get(n))]
        if names:
            said = [f"{n}: {expected[n]!r} became {found.get(n)!r}"[:300] for n in names]
            return "\n".join([f"after batch {number}", *said, source, made])
    return ""


def _is_same(expected: Any, found: Any) -> bool:
    # Lightning keeps metrics as numbers of 32 bits.
    if isinstance(expected, float) and isinstance(found, float):
        return math.isclose(expected, found, rel_tol=1e-5, abs_tol=1e-7)
    return bool(expected == found)


def trial(draw: Random) -> str:
    """The source of a trial."""
    metrics: dict[str, str] = {"loss": "loss"}

    def piece(text: str) -> list[str]:
        *lines, last = text.split("\n")
        if not last.startswith("REPORTED: "):
            return [*lines, last]
        name = f"m{len(metrics)}"
        value = last.removeprefix("REPORTED: ")
        if draw.random() < 0.5:
            lines.append(f"{name} = {value}")
            value = name
        metrics[name] = value
        return lines

    def some(pool: tuple[str, ...], most: int) -> list[str]:
        count = min(draw.choice((0, 0, 1, 1, 2)), most)
        return [line for text in draw.sample(pool, count) for line in piece(text)]

    taken = draw.sample(steps.TAKEN, draw.choice((0, 0, 0, 1)))
    before = [*some(steps.ANYWHERE, 1), *(taken and taken[0][0].split("\n"))]
    clip = draw.choice(steps.CLIPS) if draw.random() < 0.25 else ""
    middle = [*some(steps.BEHIND_LOSS, 1), *some(steps.ANYWHERE, 1)] if draw.random() < 0.4 else []
    between = some(steps.ANYWHERE, 1) if draw.random() < 0.15 else []
    # These report what they ask for before the last line does.
    early = dict(metrics)
    behind = [*some(steps.ANYWHERE, 2), *some(steps.BEHIND_LOSS, 2)]
    if draw.random() < 0.15:
        listed = ", ".join(f'"{name}": {value}' for name, value in early.items())
        behind.insert(0, draw.choice(steps.ENDS).format(metrics=listed))
    if taken:
        metrics["taken"] = taken[0][1]
    returned = ", ".join(f'"{name}": {value}' for name, value in metrics.items())
    lines = [
        *before,
        "out = self.model(x)",
        "loss = F.mse_loss(out, y)",
        *middle,
        "self.context.backward(loss)",
        *between,
        f"self.context.step_optimizer(self.opt{clip})",
        *behind,
        f"return {{{returned}}}",
    ]
    text = textwrap.indent("\n".join([*lines, ""]), " " * 8)
    init = [line for line in steps.INIT if draw.random() < 0.3 or _names(line) in text]
    return steps.HEADER + steps.TRIAL.format(
        optimizer=draw.choice(steps.OPTIMIZERS),
        init=textwrap.indent("\n".join(init), " " * 8),
        methods=steps.METHODS,
        lines=text,
    )


def _names(line: str) -> str:
    """What a line of ``__init__`` makes, as other code asks for it."""
    return line.partition(" =")[0].replace('["model"]', "")


class _Context:
    """What a trial gets of Determined, as far as these ask for it."""

    def __init__(self) -> None:
        self.batch = 0

    def wrap_model(self, model: torch.nn.Module) -> torch.nn.Module:
        return model

    wrap_optimizer = wrap_model

    def current_train_batch(self) -> int:
        return self.batch

    def backward(self, loss: torch.Tensor) -> None:
        loss.backward()

    def step_optimizer(
        self, optimizer: Any, clip_grads: Any = None, auto_zero_grads: bool = True
    ) -> None:
        if clip_grads is not None:
            clip_grads(p for group in optimizer.param_groups for p in group["params"])
        optimizer.step()
        if auto_zero_grads:
            optimizer.zero_grad()


def _done(source: str, *, is_migrated: bool) -> list[dict[str, Any]]:
    """What is there after each batch."""
    pl.LightningModule()
    known = types.ModuleType("stepped_trial")
    sys.modules["stepped_trial"] = known
    _seed()
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        logger = logging.getLogger("pytorch_lightning")
        level = logger.level
        logger.setLevel(logging.ERROR)
        try:
            exec(compile(source, "stepped_trial.py", "exec"), known.__dict__)
            return _migrated(known.Trial) if is_migrated else _original(known.Trial)
        finally:
            logger.setLevel(level)


def _original(cls: Any) -> list[dict[str, Any]]:
    context = _Context()
    module, found = cls(context), []
    rows = [*_batches(module.build_training_data_loader())]
    for epoch in range(EPOCHS):
        module.model.train()
        for batch in rows:
            given = [each.clone() for each in batch]
            metrics = module.train_batch(given, epoch, context.batch)
            context.batch += 1
            found.append({**_state(module), **_numbers(metrics)})
    return found


def _batches(loader: Any) -> Any:
    return loader.get_data_loader(repeat=False) if hasattr(loader, "get_data_loader") else loader


class _Noting(pl.Callback):
    def __init__(self) -> None:
        self.found: list[dict[str, Any]] = []

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: Any, *_: Any) -> None:
        self.found.append({**_state(pl_module), **_numbers(trainer.callback_metrics)})


def _migrated(cls: Any) -> list[dict[str, Any]]:
    noting = _Noting()
    trainer = pl.Trainer(
        accelerator="cpu",
        max_epochs=EPOCHS,
        limit_val_batches=0,
        logger=False,
        callbacks=[noting],
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    _seed()
    parameters = inspect.signature(cls).parameters
    module = cls(**{name: value for name, value in HPARAMS.items() if name in parameters})
    trainer.fit(module)
    return noting.found


def _numbers(metrics: Any) -> dict[str, Any]:
    return {f"metric {name}": float(value) for name, value in metrics.items()}


def _state(module: Any) -> dict[str, Any]:
    plain = (bool, int, float, str)
    values = {**vars(module)}
    found = {f"self.{n}": v for n, v in values.items() if isinstance(v, plain) and n[0] != "_"}
    found["self.queue"] = [*module.queue]
    found["weights"] = {n: v.flatten().tolist() for n, v in module.model.state_dict().items()}
    return found


def _seed() -> None:
    torch.manual_seed(1)
    random.seed(1)

"""What test_door.py has a copy of Lightning train: ``python trained.py COPY RESULTS [OPTION...]``.

Each case ends with a digest of what was trained, or with the words of an error. The options are
``ddp`` for the case with DDPStrategy, and ``unguarded`` to take any Lightning for a known one.
"""

from __future__ import annotations

import hashlib
import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

COPY, RESULTS, OPTIONS = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3:]
sys.path.insert(0, str(COPY))

import numpy as np
import pytorch_lightning as pl  # from the copy
import torch

from det_compat import pytorch, to_lightning
from det_compat.adapters.lightning import known
from det_compat.errors import InvalidExperimentException
from det_compat.shared.random_state import set_seed
from tests.adapters.trials import Normed, trainer, weights

assert Path(str(pl.__file__)).is_relative_to(COPY)
VALIDATES = {"val_check_interval": 3, "check_val_every_n_epoch": None}


def digest(module: torch.nn.Module, *rest: Any) -> str:
    found = hashlib.sha256(repr(rest).encode())
    for value in weights(module).values():
        found.update(value.numpy().tobytes())
    return found.hexdigest()


def fit(module: Any, ckpt_path: str | None = None, **flags: Any) -> pl.Trainer:
    set_seed(3)
    used = trainer(**{**VALIDATES, **flags})
    used.fit(module, ckpt_path=ckpt_path)
    return used


def ended(module: Any, used: pl.Trainer) -> str:
    evaluated = (module.trial.evaluated, module.trial.trained, module.trial.recorder.hooks())
    # A trial with dropout would train other weights where Lightning had drawn random numbers.
    drawn = random.random(), torch.rand(1).item(), np.random.rand()
    return digest(module, used.global_step, sorted(used.callback_metrics), *evaluated, *drawn)


def fits() -> str:
    module = to_lightning(Normed)()
    used = fit(module, max_epochs=2)
    global extra_steps
    extra_steps = getattr(used, "extra_steps", 0)
    result = ended(module, used)
    if not Path("half.ckpt").exists():  # so it is always of the first, unchanged Lightning
        used.save_checkpoint("half.ckpt")
    return result


def resumes() -> str:
    module = to_lightning(Normed)()
    return ended(module, fit(module, "half.ckpt", max_epochs=3))


def resumes_within_an_epoch() -> str:
    begun = to_lightning(Normed)()
    fit(begun, max_steps=6).save_checkpoint("within.ckpt")
    module = to_lightning(Normed)()
    return ended(module, fit(module, "within.ckpt", max_epochs=3))


def validates() -> str:
    module = to_lightning(Normed)()
    used = trainer()
    [metrics] = used.validate(module)
    return digest(module, metrics)


def by_determineds_trainer() -> str:
    torch.manual_seed(3)
    with pytorch.init(hparams={}) as context:
        trial = Normed(context)
        pytorch.Trainer(trial, context).fit(
            max_length=pytorch.Batch(6),
            validation_period=pytorch.Batch(2),
            checkpoint_period=pytorch.Batch(4),
        )
    return digest(trial.model, trial.evaluated, trial.recorder.hooks())


def on_ddp() -> str:
    module = to_lightning(Normed)()
    return ended(module, fit(module, max_epochs=2, strategy="ddp"))


def result(case: Callable[[], str]) -> str:
    torch.manual_seed(3)
    try:
        return case()
    except InvalidExperimentException as error:
        return f"refused: {error}"


extra_steps = 0
if "unguarded" in OPTIONS:
    known._difference = lambda: None
cases = [fits, resumes, resumes_within_an_epoch, validates, by_determineds_trainer]
if "ddp" in OPTIONS:
    cases = [on_ddp]
found: dict[str, Any] = {case.__name__: result(case) for case in cases}
found["known"], found["extra_steps"] = known.is_known(), extra_steps
RESULTS.write_text(json.dumps(found))

"""Callbacks that use what each batch of a validation returned collect it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytorch_lightning as pl

from tests.migrate.rewriting import method, rewritten, trial

CALLBACK = """\
import torch
from determined.pytorch import *

class Spread(PyTorchCallback):
    seen = []

{more}    def on_validation_epoch_end(self, outputs):
        {used}


"""
BUILT = (
    "    def evaluate_batch",
    "    def build_callbacks(self):\n        return {'s': Spread()}\n\n    def evaluate_batch",
)
DATA = ("DataLoader([]", "DataLoader(torch.arange(16.0).reshape(8, 2)")
BRANCHES = (
    '        return {"error"',
    '        if batch.sum() > 50:\n            return {"error": 1.0, "loss": 2.0}\n'
    '        return {"loss": 1.0, "error"',
)
USED = 'self.seen.append([o["error"] for o in outputs])'


def made(
    folder: Path, used: str, *changes: tuple[str, str], more: str = "", beside: str = ""
) -> str:
    header = CALLBACK.format(used=used, more=more) + beside
    return rewritten(folder, trial(BUILT, DATA, *changes, header=header))


def fit(source: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    exec(compile(source, "made", "exec"), names)
    trainer = pl.Trainer(
        max_epochs=2,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(names["Trial"](global_batch_size=4))
    names["metrics"] = trainer.callback_metrics
    return names


@pytest.mark.parametrize(
    "more", ["", "    def on_validation_epoch_start(self):\n        print(1)\n\n"]
)
def test_the_outputs_of_each_validation_are_collected_anew(tmp_path, more):
    source = made(tmp_path, USED, more=more)
    assert "MIGRATE" not in source
    names = fit(source)
    seen = names["Spread"].seen
    assert [len(each) for each in seen] == [2, 2]
    # Determined gave NumPy's arrays.
    assert all(isinstance(value, np.ndarray) for each in seen for value in each)
    assert float(np.mean(seen[1])) == pytest.approx(float(names["metrics"]["error"]))


def test_a_validation_that_returns_early_returns_there_as_well(tmp_path):
    source = made(tmp_path, USED, BRANCHES)
    assert "MIGRATE" not in source
    names = fit(source)
    assert names["Spread"].seen[1][1] == 1.0
    # It is logged under a name that training does not have, and told under its own.
    assert float(names["metrics"]["val_loss"]) == 1.5


def test_a_module_that_calls_its_evaluation_returns_what_that_has(tmp_path):
    heir = (
        "class Other(Trial):\n    def evaluate_batch(self, batch):\n        return {'error': 1.0}\n"
    )
    source = rewritten(
        tmp_path,
        trial(BUILT, DATA, header=CALLBACK.format(used=USED, more="")) + f"\n\n{heir}",
    )
    assert "    return metrics" in method(source, "validation_step")
    assert len(fit(source)["Spread"].seen) == 2


def test_a_variable_of_its_name_stays_one(tmp_path):
    used = 'outputs = [o["error"] for o in outputs]; self.seen.append(outputs)'
    source = made(tmp_path, used)
    assert "outputs = self.validation_outputs" in source
    assert len(fit(source)["Spread"].seen[1]) == 2


def test_no_hook_that_asks_for_outputs_no_outputs(tmp_path):
    source = made(tmp_path, 'print("ends")')
    assert "on_validation_batch_end" not in source
    assert "return metrics" not in method(source, "validation_step")


@pytest.mark.parametrize(
    ("used", "beside"),
    [
        # Determined would have reported it.
        ('outputs[0]["error"] = 1', ""),
        ("outputs.pop()", ""),
        ("[o.update(a=1) for o in outputs]", ""),
        # It would not begin anew.
        (
            USED,
            "class Heir(Spread):\n    def on_validation_epoch_start(self):\n        print(1)\n\n\n",
        ),
    ],
)
def test_what_determined_would_have_seen_is_marked(tmp_path, used, beside):
    source = made(tmp_path, used, beside=beside)
    assert "# MIGRATE: Lightning calls on_validation_epoch_end instead" in source

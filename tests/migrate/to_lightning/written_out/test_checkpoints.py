"""Checkpoints of every so many batches have what a validation of the same batch changes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.migrate.rewriting import rewritten, trial

SEEN = """\
import torch
from determined import pytorch
from determined.pytorch import DataLoader, LRScheduler, PyTorchTrial, PyTorchTrialContext


class Seen(pytorch.PyTorchCallback):
    def __init__(self):
        self.errors = 0

    def {hook}(self, metrics):
        self.errors += 1

    def state_dict(self):
        return {{"errors": self.errors}}


"""
BUILT = (
    "    def evaluate_batch",
    "    def build_callbacks(self):\n        return {'seen': Seen()}\n\n    def evaluate_batch",
)
SCRIPT = """

def main(folder):
    with pytorch.init() as context:
        trial = Trial(context)
        trainer = pytorch.Trainer(trial, context)
        trainer.fit(max_length=pytorch.Batch(8), {0})
"""
SIZE = ("self.context.get_per_slot_batch_size()", "4")
DATA = ("DataLoader([]", "DataLoader(torch.ones(32, 2)")
ALIKE = "validation_period=pytorch.Batch(2), checkpoint_period=pytorch.Batch(2)"
OTHER = "validation_period=pytorch.Batch(4), checkpoint_period=pytorch.Batch(2)"


def migrated(folder: Any, periods: str, hook: str = "on_validation_end") -> str:
    source = trial(SIZE, DATA, BUILT, header=SEEN.format(hook=hook))
    made = rewritten(folder, source + SCRIPT.format(periods))
    assert "MIGRATE" not in made
    return made


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("periods", "errors"), [(ALIKE, {2: 1, 4: 2, 6: 3, 8: 4}), (OTHER, {2: 0, 4: 1, 6: 1, 8: 2})]
)
def test_they_are_behind_the_validation(periods, errors, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    flags = "logger=False, enable_progress_bar=False, accelerator='cpu', devices=1"
    exec(migrated(tmp_path, periods).replace("devices=1", flags, 1), names)
    names["main"](tmp_path)
    found = {}
    for path in tmp_path.rglob("*.ckpt"):
        saved = torch.load(path, weights_only=False)
        (state,) = (each for name, each in saved["callbacks"].items() if "Seen" in name)
        found[saved["global_step"]] = state["errors"]
    assert found == errors


@pytest.mark.parametrize(
    ("hook", "periods", "saving"),
    [
        ("on_validation_end", ALIKE, "ModelCheckpoint(save_top_k=-1)"),
        (
            "on_validation_end",
            OTHER,
            "CheckpointsBehindValidations(every_n_train_steps=2, save_top_k=-1)",
        ),
        # No validation changes what is saved.
        ("tell", OTHER, "ModelCheckpoint(every_n_train_steps=2, save_top_k=-1)"),
    ],
)
def test_a_class_is_written_out_where_it_matters(hook, periods, saving, tmp_path):
    made = migrated(tmp_path, periods, hook)
    assert f"callbacks=[{saving}]" in made
    is_own = saving.startswith("Checkpoints")
    assert ("class CheckpointsBehindValidations(ModelCheckpoint):" in made) is is_own


def test_what_waits_for_fit_holds_in_the_validation_below_it(tmp_path):
    """Determined's callbacks heard of that one, and moved what training goes by."""
    waiting = "        if self.errors > 2:\n            self.trial.opt.param_groups[0]['lr'] /= 2\n"
    header = SEEN.format(hook="on_validation_end").replace(
        "        self.errors += 1\n", f"        self.errors += 1\n{waiting}"
    )
    header = header.replace("(self):\n        self.errors", "(self, trial):\n        self.errors")
    header = header.replace("self.errors = 0", "self.errors, self.trial = 0, trial")
    built = (BUILT[0], BUILT[1].replace("Seen()", "Seen(self)"))
    periods = "validation_period=pytorch.Batch(3), checkpoint_period=pytorch.Batch(2)"
    made = rewritten(tmp_path, trial(SIZE, DATA, built, header=header) + SCRIPT.format(periods))
    assert "class CheckpointsBehindValidations(ModelCheckpoint):" in made
    assert "trainer.validate(trial, verbose=False)" in made
    assert 'trainer.state.fn == "fit" or trainer.global_step > 0' in made
    assert 'trainer.state.fn == "fit":' not in made

from __future__ import annotations

import pytest

from tests.migrate.rewriting import rewritten, trial


@pytest.mark.parametrize(
    ("name", "function"),
    [("ClipGradsL2Norm", "clip_grad_norm_"), ("ClipGradsL2Value", "clip_grad_value_")],
)
def test_a_callback_that_clips_is_written_into_the_file(tmp_path, name, function):
    callbacks = f'    def build_callbacks(self):\n        return {{"clip": {name}(0.1)}}\n\n'
    change = ("    def evaluate_batch", f"{callbacks}    def evaluate_batch")
    made = rewritten(tmp_path, trial(change, ("import DataLoader", f"import {name}, DataLoader")))
    # A trial of the context API was without the effect of it, in Determined since 0.12.13.
    assert made.count("MIGRATE") == 1 and "determined" not in made
    assert f"MIGRATION.md#what-migrate-leaves-to-you\nclass {name}(pl.Callback):" in made
    assert f"        torch.nn.utils.{function}(parameters, self.clip_value)\n" in made
    assert rewritten(tmp_path, made) == made


OLDER = """\
import torch
from determined.pytorch import ClipGradsL2Norm, DataLoader, PyTorchTrial


class Trial(PyTorchTrial):
    def __init__(self, context):
        self.context = context

    def build_model(self):
        return torch.nn.Linear(2, 1)

    def optimizer(self, model):
        return torch.optim.SGD(model.parameters(), lr=0.1)

    def build_callbacks(self):
        found = {}
        if self.context.get_hparam("clip"):
            found["clip"] = ClipGradsL2Norm(0.001)
        return found

    def build_training_data_loader(self):
        return DataLoader([], batch_size=self.context.get_per_slot_batch_size())

    def build_validation_data_loader(self):
        return DataLoader([], batch_size=4)

    def train_batch(self, batch, model, epoch_idx, batch_idx):
        return {"loss": model(batch).sum()}

    def evaluate_batch(self, batch, model):
        return {"error": model(batch).sum()}
"""


def test_what_may_clip_in_an_older_trial_clips_in_lightning(tmp_path):
    made = rewritten(tmp_path, OLDER)
    assert "MIGRATE" not in made and "class ClipGradsL2Norm(pl.Callback):" in made
    # Determined's context API calls no such callback.
    assert rewritten(tmp_path, OLDER, "context").count("MIGRATE") == 1
    more = "\n\ndef others():\n    return ClipGradsL2Norm(1)\n"
    assert rewritten(tmp_path, OLDER + more).count("MIGRATE") == 2

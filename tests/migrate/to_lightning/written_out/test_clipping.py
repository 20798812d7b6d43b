from __future__ import annotations

import pytest

from det_compat.migrate.migration import migrate
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
    today = rewritten(
        tmp_path, TODAY + OLDER + "\n\ndef others():\n    return ClipGradsL2Norm(1)\n"
    )
    assert today.count("# MIGRATE: Lightning calls this, and Determined has not") == 1


TODAY = trial().replace("class Trial", "class Today")


@pytest.mark.parametrize(
    "helper",
    [
        "def clips(hp):\n    return {'clip': pytorch.ClipGradsL2Norm(hp['clip'])}\n",
        "MADE = {'clip': pytorch.ClipGradsL2Norm}\n\ndef clips(hp):\n"
        "    return {n: make(hp['clip']) for n, make in MADE.items()}\n",
        "class Half(pytorch.ClipGradsL2Norm):\n    pass\n\ndef clips(hp):\n"
        "    return {'clip': Half(hp['clip'])}\n",
        "class Mine(pytorch.PyTorchCallback):\n"
        "    def on_before_optimizer_step(self, parameters):\n"
        "        torch.nn.utils.clip_grad_norm_(parameters, 0.1)\n\n"
        "def clips(hp):\n    return {'clip': Mine()}\n",
    ],
    ids=["call", "table", "heir", "own"],
)
def test_what_clips_beside_older_trials_alone_is_as_it_was(helper, tmp_path):
    text = "import torch\nfrom determined import pytorch\n\n" + helper
    (tmp_path / "hooks.py").write_text(text)
    builds = "        return clips(self.context.get_hparams())\n"
    start, end = OLDER.index("        found = {}"), OLDER.index("    def build_training")
    trial = f"from hooks import clips\n{OLDER[:start]}{builds}\n{OLDER[end:]}"
    (tmp_path / "model_def.py").write_text(trial)
    files = {f.path.name: f for f in migrate([str(tmp_path)], "lightning").files}
    made = files["hooks.py"].after.decode()
    assert "MIGRATE" not in made and "(pl.Callback)" in made
    assert "def on_before_optimizer_step(self, trainer, pl_module, optimizer)" in made
    # With a trial of today beside it, which Determined does not clip by it, that is said.
    (tmp_path / "today.py").write_text("from hooks import clips\n" + TODAY)
    files = {f.path.name: f for f in migrate([str(tmp_path)], "lightning").files}
    assert files["hooks.py"].after.decode().count("# MIGRATE: Lightning calls this") == 1


@pytest.mark.parametrize(
    ("condition", "said"),
    [
        ('self.context.get_hparams().get("clip_grad_l2_norm")', ""),
        ("self.context.get_hparams().get('clip_grad_l2_norm') is not None", ""),
        ("self.clips", "Determined 0.12 clipped by callbacks, and by hyperparameters only where"),
    ],
)
def test_a_callback_clips_and_no_hyperparameter_beside_it(condition, said, tmp_path):
    (tmp_path / "const.yaml").write_text(
        "searcher: {name: single, metric: error, max_steps: 1}\n"
        "hyperparameters: {clip_grad_l2_norm: 0.5}\n"
    )
    made = rewritten(tmp_path, OLDER.replace('self.context.get_hparam("clip")', condition))
    assert f"# MIGRATE: {said}" in made if said else "MIGRATE" not in made
    assert made.count("clip_grad_norm_(") == 1 + bool(said)


def test_what_clips_beside_a_trial_that_hyperparameters_clip_is_said(tmp_path):
    (tmp_path / "const.yaml").write_text(
        "searcher: {name: single, metric: error, max_steps: 1}\n"
        "hyperparameters: {clip_grad_l2_norm: 0.5}\n"
    )
    text = "from determined import pytorch\n\n\ndef clips():\n"
    (tmp_path / "hooks.py").write_text(f"{text}    return {{'a': pytorch.ClipGradsL2Norm(1)}}\n")
    start, end = OLDER.index("        found = {}"), OLDER.index("    def build_training")
    trial = f"from hooks import clips\n{OLDER[:start]}        return clips()\n\n{OLDER[end:]}"
    (tmp_path / "model_def.py").write_text(trial)
    files = {f.path.name: f for f in migrate([str(tmp_path)], "lightning").files}
    assert files["hooks.py"].after.decode().count("# MIGRATE: Lightning calls this") == 1

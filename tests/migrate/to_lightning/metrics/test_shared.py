"""Metrics of a family's validations that have names of its training."""

from __future__ import annotations

from typing import Any

import pytest
import pytorch_lightning as pl

from tests.migrate.rewriting import HEADER, TRIAL, method, rewritten

START = TRIAL.partition("    def train_batch")[0].replace(
    "DataLoader([]", "DataLoader([torch.ones(2)]"
)
TRAINING = """
    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = self.model(batch).sum()
        self.context.backward(loss)
        self.context.step_optimizer(self.opt)
        return {"NAME": loss}
"""
EVALUATION = """
    def evaluate_batch(self, batch):
        return {"loss": self.model(batch).sum() * 0 + 7, "error": batch.sum()}
"""
ABSTRACT = """
    def train_batch(self, batch, epoch_idx, batch_idx):
        raise NotImplementedError

    def evaluate_batch(self, batch):
        raise NotImplementedError
"""
MORE = """
    def evaluate_batch(self, batch):
        return {**super().evaluate_batch(batch), "more": batch.sum()}
"""
CALLBACKS = '\n    def build_callbacks(self):\n        return {"k": Keeping()}\n'
CALLBACK = """

class Keeping(PyTorchCallback):
    seen = []

    def on_validation_end(self, metrics):
        self.seen.append(float(metrics["loss"]))
"""
LOSS, CE = TRAINING.replace("NAME", "loss"), TRAINING.replace("NAME", "ce")


@pytest.mark.parametrize(
    ("base", "heir", "other"),
    [
        pytest.param("", LOSS + EVALUATION, CE + EVALUATION, id="in heirs"),
        pytest.param(ABSTRACT, LOSS + EVALUATION, CE + EVALUATION, id="of an abstract base"),
        pytest.param(EVALUATION, LOSS, CE, id="of a base"),
        pytest.param(LOSS, EVALUATION, EVALUATION, id="the training of a base"),
        pytest.param(LOSS + EVALUATION, MORE, CE, id="both of a base"),
    ],
)
def test_training_and_validation_have_curves_of_their_own(tmp_path, base, heir, other):
    classes = ["Base(PyTorchTrial):", "Heir(Base):", "Other(Base):"]
    bodies = [START.partition("\n")[2] + CALLBACKS + base, heir, other]
    parts = [f"\n\nclass {n}\n{b.strip(chr(10))}\n" for n, b in zip(classes, bodies, strict=True)]
    imported = "from determined.pytorch import PyTorchCallback\n"
    made = rewritten(tmp_path, HEADER + imported + "".join(parts) + CALLBACK)
    assert "MIGRATE" not in made
    for name in ("Heir", "Other"):
        found, seen = logged_by(made, name)
        assert found["val_loss"] == 7 and found.get("loss", found.get("ce")) != 7
        assert seen == [7.0]


def logged_by(made: str, name: str) -> tuple[dict[str, float], list[float]]:
    """What a module has logged, and a callback seen, after an epoch."""
    space: dict[str, Any] = {"__name__": "made"}
    exec(made.replace("DataLoader([],", "DataLoader([torch.ones(2)],"), space)
    loud = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")
    quiet: dict[str, Any] = {**dict.fromkeys(loud, False), "accelerator": "cpu"}
    trainer = pl.Trainer(max_epochs=1, **quiet)
    trainer.fit(space[name](global_batch_size=1))
    return {n: float(v) for n, v in trainer.callback_metrics.items()}, space["Keeping"].seen


def test_a_hook_cannot_ask_for_what_has_two_names(tmp_path):
    one, two = (
        TRIAL,
        TRIAL.replace("class Trial", "class Other").replace('"loss": loss', '"ce": loss'),
    )
    imported = "from determined.pytorch import PyTorchCallback\n"
    source = f"{HEADER}{imported}\n{one}\n\n{two}{CALLBACK}".replace('"error"', '"loss"')
    made = rewritten(tmp_path, source)
    said = "# MIGRATE: some trials log loss as val_loss now, and others do not"
    assert f"    {said}" in made
    assert 'metrics["loss"]' in method(made, "on_validation_end")

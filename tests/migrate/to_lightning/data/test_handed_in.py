from __future__ import annotations

import pytest
import pytorch_lightning as pl
import torch

from tests.migrate.rewriting import method, rewritten, trial

INIT = "def __init__(self, context):"
MODEL = "self.model = context.wrap_model(torch.nn.Linear(2, 1))"
TRAINING = "DataLoader([], batch_size=self.context.get_per_slot_batch_size())"


@pytest.mark.parametrize(
    ("given", "changes"),
    [
        (
            "rows",
            [(MODEL, f"{MODEL}\n        self.rows = rows"), ("[], batch", "self.rows, batch")],
        ),
        (
            "rows",
            [
                (MODEL, f"{MODEL}\n        self.data, self.n = rows, 3"),
                (TRAINING, "DataLoader(dataset=self.data, batch_size=self.n)"),
            ],
        ),
        ("net", [(MODEL, "self.model = context.wrap_model(net)")]),
        (
            "net",
            [(MODEL, f"{MODEL}\n        self.n = sum(p.numel() for p in net.parameters())")],
        ),
        (
            "loader",
            [
                (MODEL, f"{MODEL}\n        self.loader = loader"),
                (f"return {TRAINING}", "return self.loader"),
            ],
        ),
        (
            "order",
            [
                (MODEL, f"{MODEL}\n        self.order = order"),
                ("[], batch", "[], sampler=self.order, batch"),
            ],
        ),
    ],
)
def test_data_and_models_are_no_hyperparameters(given, changes, tmp_path):
    made = rewritten(
        tmp_path, trial((INIT, f"def __init__(self, context, {given}, depth):"), *changes)
    )
    saved = f'self.save_hyperparameters(ignore=["{given}"])'
    assert saved in method(made, "__init__")


@pytest.mark.parametrize(
    ("lines", "saved"),
    [
        ("self.n = x.mean(axis=0)", 'ignore=["x"]'),
        ("self.x = x; self.n = self.x.shape[0]", 'ignore=["x"]'),
        ("self.x = x; self.n = self.x.items()", ""),
        ("self.n = x.upper() + x.real", ""),
        ("x = torch.tensor(x); self.n = x.mean()", ""),
    ],
)
def test_what_only_objects_have_is_asked_for(lines, saved, tmp_path):
    init = "\n        ".join([MODEL, *lines.split("; ")])
    made = rewritten(tmp_path, trial((INIT, "def __init__(self, context, x):"), (MODEL, init)))
    assert f"self.save_hyperparameters({saved})" in method(made, "__init__")


def test_a_class_that_is_made_by_a_lambda(tmp_path):
    source = trial((INIT, "def __init__(self, context, x):"))
    made = rewritten(tmp_path, f"{source}\n\nmake = lambda c: Trial(c, numpy.ones(3))\n")
    assert 'self.save_hyperparameters(ignore=["x"])' in method(made, "__init__")


def test_numbers_of_a_loader_are(tmp_path):
    size = (MODEL, f"{MODEL}\n        self.size = size")
    init = (INIT, "def __init__(self, context, size):")
    made = rewritten(tmp_path, trial(init, size, ("batch_size=4", "batch_size=self.size")))
    assert "self.save_hyperparameters()" in method(made, "__init__")


def test_a_checkpoint_has_no_data(tmp_path):
    source = trial(
        (INIT, "def __init__(self, context, rows):"),
        (MODEL, f"{MODEL}\n        self.rows = rows"),
        ("[], batch", "self.rows, batch"),
        ("self.model(batch)", "self.model(batch[0])"),
    )
    made = {}
    exec(compile(rewritten(tmp_path, source), "made", "exec"), made)
    rows = torch.utils.data.TensorDataset(torch.ones(8, 2))
    trainer = pl.Trainer(
        accelerator="cpu",
        max_epochs=1,
        default_root_dir=tmp_path,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(made["Trial"](rows, global_batch_size=4))
    path = trainer.checkpoint_callback.best_model_path
    assert dict(made["Trial"].load_from_checkpoint(path, rows=rows).hparams) == {
        "global_batch_size": 4
    }

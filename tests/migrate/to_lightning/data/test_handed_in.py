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
        ("self.x = x; self.x.append(1); self.x.update(a=1)", ""),
        ("x = torch.tensor(x); self.n = x.mean()", ""),
    ],
)
def test_what_only_objects_have_is_asked_for(lines, saved, tmp_path):
    init = "\n        ".join([MODEL, *lines.split("; ")])
    made = rewritten(tmp_path, trial((INIT, "def __init__(self, context, x):"), (MODEL, init)))
    assert f"self.save_hyperparameters({saved})" in method(made, "__init__")


def test_a_list_that_training_fills_is_what_a_script_goes_on_with(tmp_path):
    kept = f"{MODEL}\n        self.x, self.config = x, config"
    filled = (
        "loss = self.model(batch).sum()\n        self.x.append(1)\n        self.config.update(a=1)"
    )
    source = trial(
        (INIT, "def __init__(self, context, x, config):"),
        (MODEL, kept),
        ("loss = self.model(batch).sum()", filled),
    )
    saved = 'self.save_hyperparameters(ignore=["x"])'
    assert saved in method(rewritten(tmp_path, source), "__init__")


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


@pytest.mark.parametrize(
    ("base", "heir", "given", "ignored"),
    [
        ("x", "", "numpy.ones(3)", '"x"'),
        ("x", "", "x=numpy.ones(3)", '"x"'),
        ("x", "", "3", ""),
        ("x", "*args, n=1, **kwargs", "numpy.ones(3), n=2", '"x"'),
        ("x", "n, *args", "2, numpy.ones(3)", '"x"'),
        ("x", "n, *args", "numpy.ones(3), 2", '"n"'),
        ("x", "*args, **kwargs", "x=lambda n: n", '"x"'),
        ("", "x", "numpy.ones(3)", '"x"'),
        ("", "x: torch.utils.data.Dataset", "None", '"x"'),
    ],
)
def test_what_is_given_along_a_line_of_bases(base, heir, given, ignored, tmp_path):
    source = trial((INIT, f"def __init__(self, context, {base}):".replace(", )", ")")))
    handed = ", ".join(part for part in heir.split(", ") if part[0:1] == "*")
    init = f"""
    def __init__(self, context, {heir}):
        super().__init__(context, {handed})
"""
    body = init.replace(", )", ")") if heir else "\n    pass\n"
    made = rewritten(
        tmp_path, f"{source}\n\nclass Heir(Trial):{body}\nmake = lambda c: Heir(c, {given})\n"
    )
    saved = f"ignore=[{ignored}]" if ignored else ""
    assert f"self.save_hyperparameters({saved})" in made


@pytest.mark.parametrize(
    ("heir", "given", "made", "ignored"),
    [
        ("", "x=numpy.ones(3)", "", '"x"'),
        ("", "numpy.ones(3)", "", '"x"'),
        ("", "lambda n: n", "", '"x"'),
        ("", "3", "", '"x"'),
        ("", "x=context.get_hparam('n')", "", '"x"'),
        ("", "3", "), Trial(c, 4", ""),
        (", n", "n", ", 3", ""),
        (", n", "n", ", numpy.ones(3)", '"x", "n"'),
        (", n", "x=[n, 1]", ", n=numpy.ones(3)", '"x", "n"'),
    ],
)
def test_what_an_heir_gives_its_base(heir, given, made, ignored, tmp_path):
    source = trial((INIT, "def __init__(self, context, x):"))
    body = f"""

class Heir(Trial):
    def __init__(self, context{heir}):
        super().__init__(context, {given})


make = lambda c: Heir(c{made})
"""
    saved = f"ignore=[{ignored}]" if ignored else ""
    assert f"self.save_hyperparameters({saved})" in rewritten(tmp_path, source + body)


def test_a_checkpoint_of_an_heir_has_no_data(tmp_path):
    source = trial(
        (INIT, "def __init__(self, context, rows, names=()):"),
        (MODEL, f"{MODEL}\n        self.rows = rows"),
        ("[], batch", "self.rows, batch"),
        ("self.model(batch)", "self.model(batch[0])"),
    )
    heir = """

class Heir(Trial):
    def __init__(self, context, *args, depth=1, **kwargs):
        super().__init__(context, *args, **kwargs)


def make(context):
    rows = torch.utils.data.TensorDataset(torch.ones(8, 2))
    return Heir(context, rows, names=[torch.nn.ReLU()], depth=2)
"""
    made = {}
    text = rewritten(tmp_path, source + heir)
    exec(compile(text.replace("Heir(context, ", "Heir("), "made", "exec"), made)
    rows = torch.utils.data.TensorDataset(torch.ones(8, 2))
    module = made["Heir"](rows, names=[torch.nn.ReLU()], depth=2, global_batch_size=4)
    assert dict(module.hparams) == {"depth": 2, "global_batch_size": 4}


def test_what_one_heir_is_given_and_another_looks_up_is_a_hyperparameter(tmp_path):
    heirs = """

class Handed(Trial):
    def __init__(self, context, net):
        super().__init__(context)


class Asking(Trial):
    def __init__(self, context):
        super().__init__(context)
        print(context.get_hparam("net"))


make = lambda c: Handed(c, torch.nn.Linear(2, 1))
"""
    assert "self.save_hyperparameters()" in rewritten(tmp_path, trial() + heirs)

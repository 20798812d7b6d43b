from __future__ import annotations

import shutil
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from det_compat.cli import main
from det_compat.migrate.migration import migrate
from det_compat.migrate.verification import verify_migration
from tests.migrate import rewriting
from tests.preloaded import executable

SILENT = Path(__file__).with_name("silent_trials.py")
DIGITS = Path(__file__).parents[2] / "examples" / "digits"


def test_trials_are_compared_before_they_are_written(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys, "executable", executable())
    for name in ("model_def.py", "const.yaml"):
        shutil.copy(DIGITS / name, tmp_path / name)
    command = ["migrate", str(tmp_path), "--to", "lightning", "--verify", "--batches", "2"]
    assert main(command) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"{tmp_path / 'model_def.py'}:DigitsTrial (const.yaml): " + (
        "verified: 2 batches, every tensor bit for bit"
    )
    assert (tmp_path / "model_def.py").read_text() == (DIGITS / "model_def.py").read_text()


CONFIG = """\
entrypoint: model_def:{}
searcher: {{name: single, metric: val, max_length: {{batches: 8}}}}
hyperparameters: {{{}}}
"""
AGGREGATED = "optimizations: {aggregation_frequency: 3}\n"
#: Each config by its name: the trial, and the hyperparameters.
CONFIGS = {
    "const": ("One", "global_batch_size: 4, lr: 1, classes: 2"),
    "const-distributed": ("One", "global_batch_size: 8, lr: 0.5, classes: 2, warmup: 3"),
    "two": ("Two", "global_batch_size: 4, lr: 1, classes: 2"),
    "three": ("Three", "global_batch_size: 4"),
    "three-scaled": ("Three", "global_batch_size: 4, scale: 0.5"),
    "four": ("Four", "global_batch_size: 4"),
    "five": ("Five", "global_batch_size: 4"),
    "adaptive": ("Two", "global_batch_size: 8, lr: {type: double, minval: 0.1, maxval: 1}"),
}


def test_a_plain_trainer_trains_with_every_config(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys, "executable", executable())
    shutil.copy(SILENT, tmp_path / "model_def.py")
    for name, (trial, hparams) in CONFIGS.items():
        (tmp_path / f"{name}.yaml").write_text(
            CONFIG.format(trial, hparams) + (AGGREGATED if trial == "Five" else "")
        )
    command = ["migrate", str(tmp_path), "--to", "lightning", "--verify", "--batches", "6"]
    assert main(command) == 0
    printed = [line for line in capsys.readouterr().out.splitlines() if "model_def.py:" in line]
    assert {line.partition("model_def.py:")[2] for line in printed} == {
        f"{trial} ({name}.yaml): verified: 6 batches, every tensor bit for bit"
        for name, (trial, _) in CONFIGS.items()
    }


PACKAGED = """\
import torch
from data import loader
from determined.pytorch import PyTorchTrial


class Trial(PyTorchTrial):
    def __init__(self, context):
        self.context = context
        self.model = context.wrap_model(torch.nn.Linear(1, 1))
        self.optimizer = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.1))

    def build_training_data_loader(self):
        return loader()

    def build_validation_data_loader(self):
        return loader()

    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = self.model(batch).square().mean()
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch):
        return {"val_loss": self.model(batch).mean()}
"""
LOADER = """\
import torch
from determined.pytorch import DataLoader


def loader():
    return DataLoader(torch.ones(4, 1), batch_size=2)
"""


def test_the_files_of_the_folder_that_it_is_called_in_are_the_migrated_ones(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(sys, "executable", executable())
    files = {"__init__.py": "", "model_def.py": PACKAGED, "data.py": LOADER}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    command = ["migrate", ".", "--to", "lightning", "--verify", "--batches", "3"]
    hparams = ["--hparams", "{global_batch_size: 2}"]
    assert main([*command, *hparams]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "model_def.py:Trial: verified: 3 batches, every tensor bit for bit"


SCRIPT = """\
import argparse

import torch
from determined import pytorch


class Trial(pytorch.PyTorchTrial):
    def __init__(self, context, hparams):
        self.context, self.hparams = context, hparams
        self.model = context.wrap_model(torch.nn.Linear(hparams["width"], 1))
        self.opt = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), hparams["lr"]))

    def build_training_data_loader(self):
        return pytorch.DataLoader(torch.eye(self.hparams["width"]), batch_size=2)

    def build_validation_data_loader(self):
        return pytorch.DataLoader(torch.eye(self.hparams["width"]), batch_size=2)

    def train_batch(self, batch, epoch_idx, batch_idx):
        loss = self.model(batch).square().mean()
        self.context.backward(loss)
        self.context.step_optimizer(self.opt)
        return {"loss": loss}

    def evaluate_batch(self, batch):
        return {"error": self.model(batch).square().mean()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--width", type=int, default=4)
    args = parser.parse_args()
    with pytorch.init() as context:
        trial = Trial(context, {"lr": args.lr, "width": args.width})
        pytorch.Trainer(trial, context).fit(max_length=pytorch.Batch(4))


if __name__ == "__main__":
    main()
"""


def test_a_trial_has_the_hyperparameters_that_its_script_says(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys, "executable", executable())
    (tmp_path / "train.py").write_text(SCRIPT)
    command = ["migrate", str(tmp_path), "--to", "lightning", "--verify", "--batches", "4"]
    assert main(command) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.endswith("train.py:Trial: verified: 4 batches, every tensor bit for bit")


def test_what_only_a_script_can_make_is_no_failure_of_the_original(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys, "executable", executable())
    text = SCRIPT.replace("def __init__(self, context", "def __init__(self, context, data, *, size")
    assert text != SCRIPT
    (tmp_path / "train.py").write_text(text)
    assert main(["migrate", str(tmp_path), "--to", "lightning", "--verify"]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert "Trial: not verified, because only a script knows what Trial takes as data, size" in last


def test_a_trial_whose_hyperparameters_nobody_tells_says_so(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(sys, "executable", executable())
    given = '{"lr": args.lr, "width": args.width}'
    assert given in SCRIPT
    (tmp_path / "train.py").write_text(SCRIPT.replace(given, "read(args)"))
    assert main(["migrate", str(tmp_path), "--to", "lightning", "--verify"]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert "not verified, because the original failed: " in last
    assert last.endswith("; no config tells its hyperparameters, --hparams may")


@pytest.mark.parametrize(
    ("entrypoint", "trained"),
    [
        ("", {"Heir"}),
        ("entrypoint: model_def:Heir\n", {"Heir"}),
        ("entrypoint: model_def:Trial\n", {"Trial", "Heir"}),
    ],
)
def test_a_base_is_trained_where_a_config_names_it(entrypoint, trained, tmp_path, monkeypatch):
    heir = "\n\nclass Heir(Trial):\n    pass\n"
    (tmp_path / "model_def.py").write_text(rewriting.trial() + heir)
    (tmp_path / "const.yaml").write_text(
        f"{entrypoint}searcher: {{name: single, metric: error, max_length: {{batches: 2}}}}\n"
        "hyperparameters: {global_batch_size: 4}\n"
    )

    def verify_all(pairs, **options):
        return [SimpleNamespace(original_error="") for _ in pairs]

    monkeypatch.setattr("det_compat.adapters.verify.verdict.verify_all", verify_all)
    found = verify_migration([str(tmp_path)], migrate([str(tmp_path)], "lightning"), None, (), 2)
    assert {label.partition(" ")[0].rpartition(":")[2] for label, _ in found} == trained

"""Runs of data that do not say how many batches they have, or say that they have none."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from torch.utils.data import IterableDataset

from det_compat import TrialModule, errors
from det_compat.adapters.experiment.search_trial import train_one
from det_compat.adapters.run.trial_run import TrialRun
from det_compat.cli import main
from det_compat.config.lengths import Length, Unit
from det_compat.pytorch import Batch, Epoch, PyTorchTrial
from tests.adapters.trials import trainer
from tests.experiment.projects import QUIET, project, recorded

STREAM = """
class Stream(torch.utils.data.IterableDataset):
    def __init__(self, rows):
        self.rows = rows

    def __iter__(self):
        return iter(self.rows)

class SaysNone(Stream):
    def __len__(self):
        return 0

class Trial(PyTorchTrial):
"""
TRAINING = "return DataLoader(data, batch_size=size, shuffle=True)"
VALIDATION = "return DataLoader(torch.ones(8, 2), batch_size=4)"
LENGTH = {"name": "single", "metric": "validation_loss", "max_length": {"batches": 25}}
EVERY = ("--trainer.check_val_every_n_epoch", "1")
EPOCHS = {**LENGTH, "max_length": {"epochs": 2}}


def unsized(folder: Path, data: str = "Stream", **keys: Any) -> Path:
    """The config of a project whose loaders are of a ``data`` class."""
    file = project(folder, **{"searcher": LENGTH, **keys})
    code = file.with_name("model_def.py")
    anything = "self.context.experimental.disable_dataset_reproducibility_checks()"
    loader = f"torch.utils.data.DataLoader({data}"
    text = code.read_text().replace("class Trial(PyTorchTrial):\n", STREAM)
    text = text.replace(TRAINING, f"{anything}\n        return {loader}(data), batch_size=size)")
    code.write_text(text.replace(VALIDATION, f"return {loader}(torch.ones(8, 2)), batch_size=4)"))
    return file


@pytest.mark.parametrize("bar", ["RichProgressBar", "TQDMProgressBar"])
def test_nothing_shows_a_length(
    bar: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = unsized(tmp_path / "p", min_validation_period={"batches": 10})
    bars = ("--trainer.callbacks+", bar, "--trainer.callbacks.refresh_rate", "1")
    assert main(["fit", str(file), *bars, "--trainer.max_steps", "15"]) == 0
    assert main(["fit", str(file), *bars, "--resume"]) == 0
    shown = capsys.readouterr()
    assert "an unknown number of batches" in shown.out and "25 batches" in shown.out
    assert "after batch 15, from checkpoint" in shown.out
    assert str(sys.maxsize)[:9] not in shown.out + shown.err
    assert recorded(tmp_path)["validation"] == [10, 15, 20, 25]


def test_the_config_says_how_long_an_epoch_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    period = {"epochs": 1}
    file = unsized(
        tmp_path / "p",
        searcher=EPOCHS,
        records_per_epoch=30,
        min_validation_period=period,
        min_checkpoint_period=period,
    )
    assert main(["fit", str(file), *QUIET]) == 0
    assert "15 batches" in capsys.readouterr().out
    assert recorded(tmp_path)["validation"] == [7, 14, 15]
    flags = ("--trainer.val_check_interval", "0.5", *EVERY)
    assert main(["fit", str(file), *QUIET, *flags]) == 0
    assert recorded(tmp_path)["validation"][3:] == [3, 6, 9, 12, 15]


@pytest.mark.parametrize(
    ("keys", "options", "message"),
    [
        ({"searcher": EPOCHS}, [], "2 epochs cannot be counted in batches: set records_per_epoch"),
        ({"min_validation_period": {"epochs": 1}}, [], "1 epoch cannot be counted"),
        ({"min_checkpoint_period": {"epochs": 1}}, [], "1 epoch cannot be counted"),
        ({}, ["max_epochs", "3"], "3 epochs cannot be counted"),
        ({}, ["val_check_interval", "0.5", *EVERY], "val_check_interval=0.5 is a part of an epoch"),
        ({}, ["limit_train_batches", "0.5"], "limit_train_batches=0.5 is a part of data"),
        ({}, ["limit_val_batches", "0.5"], "limit_val_batches=0.5 is a part of data"),
        (
            {"searcher": EPOCHS, "records_per_epoch": 30, "hyperparameters": {"batch": 4}},
            [],
            "global_batch_size",
        ),
    ],
)
def test_what_is_counted_by_epochs_is_refused(
    keys: dict[str, Any],
    options: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = unsized(tmp_path / "p", **keys)
    if "hyperparameters" in keys:
        code = file.with_name("model_def.py")
        code.write_text(code.read_text().replace("self.context.get_per_slot_batch_size()", "4"))
    flags = [f"--trainer.{options[0]}", *options[1:]] if options else []
    assert main(["fit", str(file), *QUIET, *flags]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "record.txt").exists()


def test_a_limit_makes_epochs(tmp_path: Path) -> None:
    file = unsized(tmp_path / "p", searcher=EPOCHS, min_validation_period={"epochs": 1})
    limits = ("--trainer.limit_train_batches", "6", "--trainer.limit_val_batches", "1")
    assert main(["fit", str(file), *QUIET, *limits]) == 0
    assert recorded(tmp_path)["validation"] == [6, 12]


@pytest.mark.filterwarnings("ignore:Length of IterableDataset")
def test_data_that_say_they_are_empty_are_trained_on(tmp_path: Path) -> None:
    file = unsized(tmp_path / "p", "SaysNone", min_validation_period={"batches": 10})
    assert main(["fit", str(file), *QUIET]) == 0
    assert recorded(tmp_path)["validation"] == [10, 20, 25]


class _Stream(IterableDataset[torch.Tensor]):
    def __iter__(self) -> Iterator[torch.Tensor]:
        return iter(torch.ones(6, 2))


class _Trial(PyTorchTrial):
    def __init__(self, context: Any) -> None:
        self.context = context
        context.experimental.disable_dataset_reproducibility_checks()
        self.model = context.wrap_model(torch.nn.Linear(2, 1))
        self.optimizer = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.1))
        self.evaluated = 0

    def build_training_data_loader(self) -> Any:
        return torch.utils.data.DataLoader(_Stream(), batch_size=2)

    build_validation_data_loader = build_training_data_loader

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> Any:
        assert epoch_idx == 0
        loss = self.model(batch).sum()
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch: Any) -> Any:
        self.evaluated += 1
        return {"validation_loss": self.model(batch).sum()}


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"max_epochs": 1}, "max_epochs=1 counts epochs"),
        ({"max_epochs": -1, "max_steps": 4, "val_check_interval": 0.5}, "val_check_interval=0.5"),
        ({"max_epochs": -1, "max_steps": 4, "limit_train_batches": 0.5}, "limit_train_batches=0.5"),
    ],
)
def test_flags_of_a_trainer_that_count_epochs(flags: dict[str, Any], message: str) -> None:
    with pytest.raises(errors.InvalidExperimentException, match=message):
        trainer(**flags).fit(TrialModule(_Trial))


def test_a_trainer_with_a_bar(tmp_path: Path) -> None:
    module = TrialModule(_Trial)
    flags = {"max_epochs": -1, "max_steps": 5, "enable_progress_bar": True}
    runner = trainer(**flags, check_val_every_n_epoch=None, val_check_interval=2)
    runner.fit(module)
    assert (runner.num_training_batches, runner.num_val_batches) == (float("inf"), [float("inf")])
    assert module.run.state.batches_trained == 5
    assert module.trial.evaluated == 6
    trainer(enable_progress_bar=True).validate(module)
    assert module.trial.evaluated == 9


def test_a_script(monkeypatch: pytest.MonkeyPatch) -> None:
    from det_compat import pytorch

    monkeypatch.setenv("DET_COMPAT_PROGRESS", "1")

    def fit(hparams: dict[str, Any], conf: dict[str, Any], **units: Any) -> TrialRun:
        with pytorch.init(hparams=hparams, exp_conf=conf) as context:
            trial = _Trial(context)
            pytorch.Trainer(trial, context).fit(checkpoint_policy="none", **units)
            return trial

    records = {"records_per_epoch": 8}
    trial: Any = fit({"global_batch_size": 2}, records, max_length=Epoch(1))
    assert trial.evaluated == 3
    trial = fit({"global_batch_size": 2}, records, max_length=Batch(7), validation_period=Epoch(1))
    assert trial.evaluated == 6
    with pytest.raises(errors.InvalidExperimentException, match="max_length: 2 epochs cannot be"):
        fit({}, {}, max_length=Epoch(2))
    with pytest.raises(errors.InvalidExperimentException, match=r"period: Epoch\(\[1\]\) cannot"):
        fit({}, {}, max_length=Batch(2), validation_period=Epoch([1]))
    assert fit({}, {}, max_length=Epoch(2), test_mode=True).evaluated == 1


def test_rungs_of_a_search(tmp_path: Path) -> None:
    file = unsized(tmp_path / "p", searcher=EPOCHS, records_per_epoch=30)
    told = []

    def report(batches: int, metrics: dict[str, Any], checkpoint: str | None) -> None:
        told.append((batches, metrics["epochs"]))

    config, rungs = yaml.safe_load(file.read_text()), [Length(1, Unit.EPOCHS)]
    args: dict[str, Any] = {"model_dir": file.parent, "validate_at": rungs}
    train_one(config, tmp_path / "run", report, None, **args)
    assert told == [(7, 1), (15, 2)]


@pytest.mark.filterwarnings("ignore:Length of IterableDataset")
@pytest.mark.parametrize(("of", "message"), [("data", "gave no batch"), ("torch.ones", "no batch")])
def test_what_yields_nothing_is_empty(
    of: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = unsized(tmp_path / "p", "SaysNone").with_name("model_def.py")
    code.write_text(code.read_text().replace(f"SaysNone({of}", f"SaysNone([] and {of}"))
    assert main(["fit", str(tmp_path / "p/const.yaml"), *QUIET]) == 2
    assert re.search(f"det-compat: .*loader.*{message}", capsys.readouterr().err)

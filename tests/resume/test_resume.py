"""A run that is resumed ends as the one that was not: every bit, report and event."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from det_compat import core
from det_compat.pytorch import Batch
from tests.resume import driver
from tests.resume.compare import differences
from tests.resume.loaders import ALL

WITH_WORKERS = {"hparams": {"workers": 2}}
LIGHTNING: dict[str, tuple[dict[str, Any], int]] = {
    "epochs": ({}, 1),
    "workers": (WITH_WORKERS, 5),
    "validation every third batch": ({"val_check_interval": 3, "check_val_every_n_epoch": None}, 4),
    "validation every second epoch": ({"check_val_every_n_epoch": 2}, 4),
    "limited epochs": ({"limit_train_batches": 7, "val_check_interval": 3}, 3),
    "steps": ({"max_steps": 26, "max_epochs": -1}, 4),
    "no aggregation": ({"aggregation": 1}, 7),
}
DETERMINED: dict[str, tuple[dict[str, Any], int]] = {
    "epochs": ({}, 3),
    "workers": (WITH_WORKERS, 8),
    "mixed": (
        {
            "validation_period": Batch(4),
            "checkpoint_period": Batch(3),
            "max_length": Batch(30),
            "reporting_period": Batch(5),
        },
        1,
    ),
    "checkpoints before validations": ({"checkpoint_policy": "none"}, 5),
}


@pytest.fixture(autouse=True)
def surroundings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
    for name in ("report_training_metrics", "report_validation_metrics"):
        monkeypatch.setattr(core.TrainContext, name, getattr(core.TrainContext, name))
    driver.record_reports()
    before = random.getstate(), np.random.get_state(), torch.get_rng_state()
    yield
    random.setstate(before[0])
    np.random.set_state(before[1])
    torch.set_rng_state(before[2])


def check_lightning(folder: Path, every: int, **kwargs: Any) -> None:
    whole = driver.lightning(folder, **kwargs)
    assert len(whole["marks"]) > 20
    for checkpoint in list(whole["marks"])[::every]:
        resumed = driver.lightning(None, folder / checkpoint, first_seed=99, **kwargs)
        assert not differences(whole, resumed, checkpoint), checkpoint


def check_determined(every: int, **kwargs: Any) -> None:
    whole = driver.determined(**kwargs)
    assert len(whole["marks"]) > 10
    for checkpoint, after in list(whole["marks"].items())[::every]:
        resumed = driver.determined(checkpoint, first_seed=99, **kwargs)
        assert not differences(whole, resumed, checkpoint), after


@pytest.mark.parametrize("case", LIGHTNING)
def test_under_a_lightning_trainer(case: str, tmp_path: Path) -> None:
    flags, every = LIGHTNING[case]
    check_lightning(tmp_path, every, **flags)


@pytest.mark.parametrize("case", DETERMINED)
def test_under_pytorch_trainer(case: str) -> None:
    flags, every = DETERMINED[case]
    check_determined(every, **flags)


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("trial_cls", ALL)
def test_wherever_the_data_come_from(trial_cls: type, workers: int, tmp_path: Path) -> None:
    if trial_cls.__name__ == "Streamed" and workers:
        pytest.skip("each worker of an IterableDataset draws an order of its own")
    kwargs: dict[str, Any] = {"trial_cls": trial_cls, "hparams": {"workers": workers}}
    check_lightning(tmp_path, 9, **kwargs)
    check_determined(11, **kwargs)


def test_a_checkpoint_of_a_resumed_run_is_as_good(tmp_path: Path) -> None:
    whole = driver.lightning(tmp_path / "whole", **WITH_WORKERS)
    again = tmp_path / "again"
    driver.lightning(again, tmp_path / "whole/9-batch.ckpt", first_seed=98, **WITH_WORKERS)
    resumed = driver.lightning(None, again / "25-batch.ckpt", first_seed=99, **WITH_WORKERS)
    assert not differences(whole, resumed, "25-batch.ckpt")


def test_a_difference_would_be_found(tmp_path: Path) -> None:
    whole = driver.lightning(tmp_path)
    other = driver.lightning(None, tmp_path / "8-batch.ckpt", hparams={"workers": 0})
    assert differences(whole, other, "7-batch.ckpt")


def test_checkpoints_are_plain_data(tmp_path: Path) -> None:
    driver.lightning(tmp_path)
    for moment in ("5-batch", "11-batch", "11-validation", "11-epoch", "33-epoch"):
        loaded = torch.load(tmp_path / f"{moment}.ckpt", weights_only=True)
        batches = loaded["determined"]["trial_state"]["batches_trained"]
        assert batches == int(moment.split("-")[0]), moment

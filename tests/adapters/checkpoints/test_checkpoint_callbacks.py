from __future__ import annotations

import errno
import math
import os
from pathlib import Path
from typing import Any

import fsspec
import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.demos.boring_classes import BoringModel

from det_compat import to_lightning
from det_compat.adapters.checkpoints.checkpoint_callbacks import checkpoint_callbacks
from det_compat.core.retention import CheckpointPolicy, RetentionPolicy, SavedCheckpoint, to_delete
from det_compat.errors import CheckpointWriteError
from tests.adapters.trials import Linear, trainer

METRICS = [0.5, 0.4, 0.6, 0.4, 0.3, 0.7, 0.3]
NAN = math.nan


class Scripted(Linear):
    """Validations that return the metrics that the hparams list, one an epoch of four batches."""

    def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
        number = self.context.current_train_epoch()
        return {"score": self.hparam("metrics", METRICS)[number], "loss": 9.0}


class Clashing(Scripted):
    """A training metric has the name of the searcher metric."""

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        return {**super().train_batch(batch, epoch_idx, batch_idx), "score": 99.0}


def fit(
    dirpath: Any, metrics: list[float], trial: type = Scripted, ckpt: Any = None, **kwargs: Any
) -> Any:
    epochs = kwargs.pop("epochs", len(metrics))
    (callback,) = checkpoint_callbacks("score", dirpath=dirpath, **kwargs)
    module = to_lightning(trial)(hparams={"metrics": metrics})
    used = trainer(max_epochs=epochs, callbacks=[callback], enable_checkpointing=True, logger=False)
    used.fit(module, ckpt_path=ckpt)
    return callback


def batches(dirpath: Any) -> list[int]:
    names = [name for name in os.listdir(dirpath) if name.endswith(".ckpt")]
    return sorted(int(name.removeprefix("batches=").removesuffix(".ckpt")) for name in names)


def kept_by_determined(metrics: list[float], policy: str, retention: RetentionPolicy) -> list[int]:
    due = CheckpointPolicy(policy, retention.smaller_is_better)
    saved = []
    for number, metric in enumerate(metrics, 1):
        if due.is_due(metric) or number == len(metrics):
            saved.append(SavedCheckpoint(str(4 * number), 4 * number, metric))
    deleted = to_delete(saved, retention)
    return [one.steps_completed for one in saved if one.uuid not in deleted]


@pytest.mark.parametrize("policy", ["best", "all", "none"])
@pytest.mark.parametrize(
    "metrics, best, latest, smaller_is_better",
    [
        (METRICS, 1, 1, True),
        (METRICS, 2, 1, True),
        (METRICS, 3, 0, True),
        (METRICS, 0, 2, True),
        (METRICS, 2, 2, False),
        ([0.5, 0.5, 0.4], 2, 0, True),
        ([NAN, 0.5, NAN, 0.4], 1, 1, True),
        ([NAN, 0.5, NAN, 0.4], 3, 1, False),
    ],
)
def test_what_determined_keeps_is_kept(
    tmp_path: Path,
    policy: str,
    metrics: list[float],
    best: int,
    latest: int,
    smaller_is_better: bool,
) -> None:
    callback = fit(
        tmp_path / "checkpoints",
        metrics,
        smaller_is_better=smaller_is_better,
        save_trial_best=best,
        save_trial_latest=latest,
        checkpoint_policy=policy,
    )
    retention = RetentionPolicy(0, best, latest, smaller_is_better)
    expected = kept_by_determined(metrics, policy, retention)
    assert batches(tmp_path / "checkpoints") == expected
    assert Path(callback.best_model_path).exists()


def test_the_best_and_the_last_are_known(tmp_path: Path) -> None:
    callback = fit(tmp_path, [0.5, 0.4, 0.6], checkpoint_policy="all")
    assert callback.best_model_path == str(tmp_path / "batches=8.ckpt")
    assert callback.last_model_path == str(tmp_path / "batches=12.ckpt")
    assert callback.best_model_score == torch.tensor(0.4)
    loaded = torch.load(callback.best_model_path, weights_only=True)
    assert loaded["determined"]["trial_state"]["batches_trained"] == 8


def test_a_metric_may_have_the_name_of_a_training_metric(tmp_path: Path) -> None:
    fit(tmp_path, [0.5, 0.4, 0.6], Clashing)
    assert batches(tmp_path) == [8, 12]


def test_checkpoints_between_validations(tmp_path: Path) -> None:
    fit(tmp_path, [0.5, 0.4], checkpoint_period=3, save_trial_latest=9)
    assert batches(tmp_path) == [3, 4, 6, 8]
    fit(tmp_path / "one", [0.5, 0.4], checkpoint_period=3, checkpoint_policy="none", epochs=1)
    assert batches(tmp_path / "one") == [4]


@pytest.mark.filterwarnings("ignore:.*exists and is not empty:UserWarning")
@pytest.mark.parametrize("epochs", [1, 2, 3, 4, 5, 6])
def test_a_resumed_run_keeps_what_the_whole_run_keeps(tmp_path: Path, epochs: int) -> None:
    counts = {"save_trial_best": 2, "save_trial_latest": 1, "checkpoint_policy": "all"}
    fit(tmp_path / "whole", METRICS, **counts)
    first = fit(tmp_path / "resumed", METRICS, epochs=epochs, **counts)
    fit(tmp_path / "resumed", METRICS, ckpt=first.last_model_path, **counts)
    assert batches(tmp_path / "resumed") == batches(tmp_path / "whole")


@pytest.mark.filterwarnings("ignore:.*exists and is not empty:UserWarning")
def test_lightning_finds_the_last(tmp_path: Path) -> None:
    fit(tmp_path, METRICS[:3])
    fit(tmp_path, METRICS[:4], ckpt="last", checkpoint_policy="all")
    assert batches(tmp_path) == [8, 16]


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save = pl.Trainer.save_checkpoint

    def fail(self: pl.Trainer, path: str, *args: Any) -> None:
        save(self, path, *args)
        if path.endswith("=12.ckpt"):
            os.truncate(path, 100)
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pl.Trainer, "save_checkpoint", fail)
    with pytest.raises(CheckpointWriteError, match=r"batches=12.ckpt: .*batches=8.ckpt, is kept"):
        fit(tmp_path, METRICS, checkpoint_policy="all", save_trial_best=0)
    assert batches(tmp_path) == [8]
    assert torch.load(tmp_path / "batches=8.ckpt", weights_only=True)["state_dict"]


def test_checkpoints_of_others_are_left_alone(tmp_path: Path) -> None:
    first = fit(tmp_path / "first", [0.5, 0.4])
    (tmp_path / "second").mkdir()
    for name in ("batches=8.ckpt", "batches=9.ckpt", "last.ckpt"):
        (tmp_path / "second" / name).touch()
    with (
        pytest.warns(UserWarning, match="The dirpath has changed"),
        pytest.warns(UserWarning, match="exists and is not empty"),
    ):
        fit(tmp_path / "second", [0.5, 0.4, 0.3, 0.2], ckpt=first.last_model_path)
    assert batches(tmp_path / "first") == [8]
    assert sorted(os.listdir(tmp_path / "second")) == [
        "batches=16.ckpt",
        "batches=8.ckpt",
        "batches=9.ckpt",
        "last.ckpt",
    ]


def test_a_file_of_that_name_is_kept(tmp_path: Path) -> None:
    (tmp_path / "batches=4.ckpt").write_text("mine")
    with pytest.warns(UserWarning, match="exists and is not empty"):
        callback = fit(tmp_path, [0.5])
    assert (tmp_path / "batches=4.ckpt").read_text() == "mine"
    assert callback.last_model_path == str(tmp_path / "batches=4-v1.ckpt")


def test_a_url(tmp_path: Path) -> None:
    url = f"memory://{tmp_path}/checkpoints"
    fit(url, [0.5, 0.4, 0.6])
    names = fsspec.filesystem("memory").ls(f"{tmp_path}/checkpoints", detail=False)
    assert sorted(os.path.basename(name) for name in names) == ["batches=12.ckpt", "batches=8.ckpt"]


def test_nothing_is_saved_of_nothing(tmp_path: Path) -> None:
    (callback,) = checkpoint_callbacks("score", dirpath=tmp_path)
    module = to_lightning(Scripted)(hparams={})
    used = trainer(max_steps=0, callbacks=[callback], enable_checkpointing=True)
    used.fit(module)
    assert os.listdir(tmp_path) == []


def test_a_metric_that_is_not_returned(tmp_path: Path) -> None:
    (callback,) = checkpoint_callbacks("scroe", dirpath=tmp_path)
    used = trainer(callbacks=[callback], enable_checkpointing=True)
    with pytest.raises(ValueError, match=r"'scroe' is not among .*: loss, score"):
        used.fit(to_lightning(Scripted)(hparams={}))


def test_another_module(tmp_path: Path) -> None:
    (callback,) = checkpoint_callbacks("score", dirpath=tmp_path)
    used = trainer(callbacks=[callback], enable_checkpointing=True)
    with pytest.raises(TypeError, match=r"of trials, got a BoringModel; use Lightning's"):
        used.fit(BoringModel())


@pytest.mark.parametrize(
    "wrong",
    [
        {"save_trial_best": -1},
        {"save_trial_latest": "1"},
        {"checkpoint_policy": "latest"},
        {"checkpoint_period": -1},
        {"checkpoint_period": 1.5},
    ],
)
def test_wrong_arguments(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        checkpoint_callbacks("score", **wrong)

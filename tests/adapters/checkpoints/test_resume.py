from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from torch import nn
from torch.utils.data import Dataset

from det_compat import pytorch, to_lightning
from det_compat.adapters.checkpoints.continuation import continuation
from det_compat.adapters.checkpoints.resume import Resume
from det_compat.adapters.checkpoints.run_state import state_of
from det_compat.adapters.run.trial_run import TrialRun
from det_compat.errors import InvalidCheckpointException
from tests.adapters.trials import Linear, built, trainer

CHECKPOINTS = Path(__file__).parents[4] / "shared" / "checkpoints"


def begun(trial_cls: type = Linear) -> TrialRun:
    trial = built(trial_cls)
    run = TrialRun(trial, trial.context)
    run.begin()
    return run


def state(batches: int | None, **changes: Any) -> dict[str, Any]:
    run = begun()
    return {
        **state_of(run),
        "trial_state": {"batches_trained": batches},
        "continuation": {**continuation(run), **changes},
    }


def resumed(saved: dict[str, Any], epoch_len: int | None = None) -> TrialRun:
    trial = built(Linear)
    run = TrialRun(trial, trial.context)
    resume = Resume(run, saved)
    resume.begin("a checkpoint")
    if epoch_len is not None:
        run.set_epoch_len(epoch_len)
    resume.count_epochs()
    return run


def test_epochs_that_are_not_told_follow_from_the_batches() -> None:
    run = resumed(state(9))
    assert (run.state.batches_trained, run.state.epochs_trained) == (9, 2)


def test_batches_that_are_not_told_begin_at_0(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert resumed(state(None)).state.batches_trained == 0
    assert "does not say how many batches" in caplog.text


def test_of_two_ranks_by_one(caplog: pytest.LogCaptureFixture) -> None:
    saved = state(2)
    saved["continuation"]["ranks"] *= 2
    with caplog.at_level(logging.WARNING):
        run = resumed(saved)
    assert "with ranks: 1, its checkpoint was written with: 2" in caplog.text
    assert run.stream is not None
    assert run.stream.position()["skipped"] == 4  # batches of both ranks


def test_a_loader_of_another_length(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        resumed(state(2, epoch_len=7))
    assert "an epoch has 4 batches, and had 7" in caplog.text


def test_an_epoch_that_the_trainer_limits_as_before(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        run = resumed(state(7, epoch_len=3), 3)
    assert (run.state.epochs_trained, caplog.text) == (2, "")


def test_a_stop_that_was_asked_for_is_not_forgotten() -> None:
    saved = state(2, stop_requested=True)
    trial = built(Linear)
    resume = Resume(TrialRun(trial, trial.context), saved)
    resume.begin("a checkpoint")
    resume.restore()
    assert trial.context.get_stop_requested()


class Ones(Dataset[Any]):
    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> Any:
        return torch.ones(1), torch.ones(1)


class OneVar(pytorch.PyTorchTrial):
    """A model like that of the real checkpoints: one weight."""

    def __init__(self, context: Any) -> None:
        self.context = context
        self.model = context.wrap_model(nn.Linear(1, 1, bias=False))
        self.optimizer = context.wrap_optimizer(torch.optim.SGD(self.model.parameters(), lr=0.001))
        self.first: tuple[int, float] | None = None

    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        if self.first is None:
            self.first = (batch_idx, float(next(self.model.parameters()).detach()))
        loss = nn.functional.mse_loss(self.model(batch[0]), batch[1])
        self.context.backward(loss)
        self.context.step_optimizer(self.optimizer)
        return {"loss": loss}

    def evaluate_batch(self, batch: Any) -> dict[str, Any]:
        return {"val_loss": nn.functional.mse_loss(self.model(batch[0]), batch[1])}

    def build_training_data_loader(self) -> Any:
        return pytorch.DataLoader(Ones(), batch_size=32)

    def build_validation_data_loader(self) -> Any:
        return pytorch.DataLoader(Ones(), batch_size=32)


@pytest.mark.skipif(not CHECKPOINTS.is_dir(), reason="../shared/checkpoints is not there")
@pytest.mark.parametrize(
    ("name", "batches"),
    [("0.13.13-pytorch-old", 0), ("0.17.6-pytorch", 1), ("0.21.0-pytorch", 1)],
)
@pytest.mark.parametrize("way", ["script", "lightning"])
def test_real_checkpoints_go_on(name: str, batches: int, way: str) -> None:
    path = CHECKPOINTS / name
    [weights] = torch.load(path / "state_dict.pth", weights_only=False)["models_state_dict"]
    if way == "script":
        with pytorch.init(hparams={}, enable_tensorboard_logging=False) as context:
            trial: Any = OneVar(context)
            pytorch.Trainer(trial, context).fit(
                max_length=pytorch.Batch(5), latest_checkpoint=str(path)
            )
    else:
        used: pl.Trainer = trainer(max_steps=5, max_epochs=-1)
        module = to_lightning(OneVar)()
        used.fit(module, ckpt_path=str(path))
        trial = module.trial
    assert trial.first == (batches, float(weights["weight"]))


def test_a_checkpoint_without_what_is_needed_is_refused_by_name(tmp_path: Path) -> None:
    first = trainer(enable_checkpointing=False)
    module = to_lightning(Linear)(hparams={})
    first.fit(module)
    first.save_checkpoint(tmp_path / "whole.ckpt")
    content = torch.load(tmp_path / "whole.ckpt", weights_only=True)
    del content["determined"]["continuation"]["ranks"][0]["gradients"]
    torch.save(content, tmp_path / "damaged.ckpt")
    again = trainer(max_epochs=2)
    with pytest.raises(InvalidCheckpointException, match=r"damaged\.ckpt.*rank 0 has no gradients"):
        again.fit(to_lightning(Linear)(hparams={}), ckpt_path=tmp_path / "damaged.ckpt")

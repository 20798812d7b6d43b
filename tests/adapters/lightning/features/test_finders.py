"""Searches for a learning rate and a batch size, beside those of Lightning on a plain module."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import BatchSizeFinder, LearningRateFinder
from pytorch_lightning.loggers import CSVLogger
from pytorch_lightning.tuner import Tuner

from det_compat import pytorch, to_lightning
from det_compat.errors import InvalidExperimentException
from tests.adapters.trials import Gan, Linear, Normed, Recorder, rows, same, trainer, weights

HPARAMS = {"global_batch_size": 4, "lr": 0.1}


class Ordered(Linear):
    """Batches in the order of the rows, as the plain module below has them."""

    def build_training_data_loader(self) -> Any:
        return pytorch.DataLoader(rows(), batch_size=self.batch_size())


class Plain(pl.LightningModule):
    """The same without det_compat."""

    def __init__(self) -> None:
        super().__init__()
        self.save_hyperparameters({"lr": 0.1, "batch_size": 4})
        self.model = torch.nn.Linear(3, 1)

    def training_step(self, batch: Any) -> torch.Tensor:
        x, y = batch
        return ((self.model(x) - y) ** 2).mean()

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=self.hparams["lr"], momentum=0.9)

    def train_dataloader(self) -> Any:
        return torch.utils.data.DataLoader(rows(), batch_size=self.hparams["batch_size"])


def made(trial_cls: type = Ordered, hparams: Any = HPARAMS, **arguments: Any) -> Any:
    torch.manual_seed(3)
    return to_lightning(trial_cls)(hparams, **arguments)


@pytest.mark.parametrize(
    "settings",
    [{}, {"mode": "linear", "max_lr": 0.1}, {"max_lr": 1e4, "num_training": 30}],
)
def test_learning_rates_are_those_that_lightning_finds(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    used = {"num_training": 20, **settings}
    torch.manual_seed(3)
    expected = Tuner(trainer(default_root_dir=tmp_path, max_epochs=9)).lr_find(Plain(), **used)
    assert expected is not None
    module = made()
    found = Tuner(trainer()).lr_find(module, **used)
    assert found is not None
    assert found.results["lr"] == pytest.approx(expected.results["lr"])
    assert found.results["loss"] == pytest.approx(expected.results["loss"])
    assert found.suggestion() == pytest.approx(expected.suggestion())
    assert module.hparams["hparams"]["lr"] == found.suggestion()


@pytest.mark.parametrize("mode", ["power", pytest.param("binsearch", marks=pytest.mark.thorough)])
def test_batch_sizes_are_those_that_lightning_finds(mode: str, tmp_path: Path) -> None:
    expected = Tuner(trainer(default_root_dir=tmp_path)).scale_batch_size(Plain(), mode=mode)
    module = made()
    assert Tuner(trainer()).scale_batch_size(module, mode=mode) == expected
    assert module.hparams["hparams"] == {**HPARAMS, "global_batch_size": expected}


def test_a_search_leaves_no_trace_but_what_it_found(tmp_path: Path) -> None:
    hparams, callbacks = dict(HPARAMS), [Recorder]
    module, logger = made(Normed, hparams), CSVLogger(tmp_path)
    state = torch.random.get_rng_state()
    tuned = trainer(max_epochs=2, logger=logger, callbacks=[pl.callbacks.Timer()])
    callbacks = [*tuned.callbacks]
    Tuner(tuned).lr_find(module, num_training=14)
    assert hparams == HPARAMS
    assert torch.equal(torch.random.get_rng_state(), state)
    assert tuned.callbacks[: len(callbacks)] == callbacks
    assert not module.models
    assert [*tmp_path.rglob("*.csv")] == []
    assert (tuned.global_step, tuned.max_epochs) == (0, 2)
    tuned.fit(module)
    expected = made(Normed, {**HPARAMS, "lr": module.hparams["hparams"]["lr"]})
    trainer(max_epochs=2).fit(expected)
    assert same(weights(module), weights(expected))
    assert module.context.get_hparam("lr") != 0.1


def test_finders_among_the_callbacks_search_before_training(tmp_path: Path) -> None:
    class Small(Linear):
        def loss(self, batch: Any) -> torch.Tensor:
            if len(batch[0]) > 8:
                raise RuntimeError("CUDA out of memory.")
            return super().loss(batch)

    sizes = BatchSizeFinder()
    rates = LearningRateFinder(num_training_steps=14, attr_name="optimizer.lr")
    module = made(Small, {"global_batch_size": 4, "optimizer": {"lr": 0.1, "beta": 1}})
    used = trainer(callbacks=[sizes, rates], logger=CSVLogger(tmp_path), max_epochs=2)
    used.fit(module)
    assert sizes.optimal_batch_size == 8
    assert rates.optimal_lr is not None
    found = {"lr": rates.optimal_lr.suggestion(), "beta": 1}
    assert module.hparams["hparams"] == {"global_batch_size": 8, "optimizer": found}
    assert module.trial.trained == [0, 1, 2, 3]
    assert module.trial.recorder.hooks().count("on_trial_startup") == 1
    assert [type(c) for c in used.callbacks[:2]] == [BatchSizeFinder, LearningRateFinder]
    logged = next(tmp_path.rglob("hparams.yaml")).read_text()
    assert "global_batch_size: 8" in logged


@pytest.mark.parametrize(
    ("limit", "mode", "expected"),
    [
        (5, "power", 4),
        pytest.param(5, "binsearch", 5, marks=pytest.mark.thorough),
        (1, "power", 1),
        pytest.param(16, "binsearch", 16, marks=pytest.mark.thorough),
    ],
)
def test_the_largest_size_that_fits(limit: int, mode: Any, expected: int) -> None:
    class Limited(Linear):
        def evaluate_batch(self, batch: Any, batch_idx: int) -> dict[str, Any]:
            return super().evaluate_batch(batch, batch_idx)

        def loss(self, batch: Any) -> torch.Tensor:
            if len(batch[0]) > limit:
                raise RuntimeError("CUDA out of memory.")
            return super().loss(batch)

    module = made(Limited)
    assert Tuner(trainer()).scale_batch_size(module, mode=mode, margin=0.0) == expected


@pytest.mark.parametrize("method", ["validate", pytest.param("test", marks=pytest.mark.thorough)])
def test_a_size_to_evaluate_with(method: Any) -> None:
    module = made()
    assert Tuner(trainer()).scale_batch_size(module, method=method) == 8
    assert module.hparams["hparams"]["global_batch_size"] == 8


def test_a_search_goes_on_from_the_weights_of_the_module() -> None:
    module = made()
    trainer(max_epochs=9).fit(module)
    before = weights(module)
    found = Tuner(trainer()).lr_find(module, num_training=14)
    assert found is not None
    assert found.results["loss"][0] < 0.3
    assert same(weights(module), before)


def test_mixed_precision_and_accumulation_are_those_of_the_trainer() -> None:
    used = trainer(precision="bf16-mixed", accumulate_grad_batches=2)
    found = Tuner(used).lr_find(made(), num_training=14, update_attr=False)
    assert found is not None
    assert len(found.results["lr"]) == 14
    assert all(map(math.isfinite, found.results["loss"]))
    assert used.accumulate_grad_batches == 2


class Unnamed(Linear):
    def train_batch(self, batch: Any, epoch_idx: int, batch_idx: int) -> dict[str, Any]:
        loss = super().train_batch(batch, epoch_idx, batch_idx)["loss"]
        return {"a": loss, "b": loss}


class Fixed(Linear):
    """Reads no hyperparameter."""

    def batch_size(self) -> int:
        return 4

    def sgd(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.model.parameters(), lr=0.1)


class Own(LearningRateFinder):
    """Searches at some epochs, as in Lightning's documentation."""


def lr_find(module: Any, **flags: Any) -> None:
    Tuner(trainer(**flags)).lr_find(module)


REFUSED = {
    "no name": (lambda: lr_find(made(hparams={"batch": 4})), "lr or learning_rate .* but batch"),
    "two optimizers": (lambda: lr_find(made(Gan)), "one optimizer, and the trial has 2"),
    "no loss": (lambda: lr_find(made(Unnamed)), "'loss', and train_batch.. returns a, b"),
    "batches of one size": (
        lambda: Tuner(trainer()).scale_batch_size(made(Fixed)),
        "batches of 4 rows, 4 of them, with global_batch_size=4 as with 2: .*batch_arg_name",
    ),
    "own finder": (lambda: trainer(callbacks=[Own()]).fit(made()), "Own .* LearningRateFinder"),
    "resume": (
        lambda: trainer(callbacks=[BatchSizeFinder()]).fit(made(), ckpt_path="x.ckpt"),
        "checkpoint",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    search, words = REFUSED[case]
    with pytest.raises((InvalidExperimentException, FileNotFoundError), match=words):
        search()


@pytest.mark.parametrize("trial_cls", [Fixed, Ordered])
def test_a_rate_that_the_trial_does_not_read(
    trial_cls: type, caplog: pytest.LogCaptureFixture
) -> None:
    found = Tuner(trainer()).lr_find(made(trial_cls), num_training=14)
    assert found is not None
    assert found.suggestion() is not None
    assert ("the same optimizer with lr=" in caplog.text) == (trial_cls is Fixed)


def test_a_trial_that_somebody_else_has_built() -> None:
    with pytorch.init(hparams=HPARAMS) as context:
        from det_compat.adapters.lightning.pace import LightningPace
        from det_compat.adapters.lightning.run_module import RunModule
        from det_compat.adapters.lightning.sources import BuiltTrial
        from det_compat.adapters.run.trial_run import TrialRun

        module = RunModule(BuiltTrial(TrialRun(Linear(context), context)), LightningPace(100))
        with pytest.raises(InvalidExperimentException, match=r"to_lightning.*det-compat search"):
            trainer(callbacks=[LearningRateFinder(update_attr=False)]).fit(module)


def test_fast_dev_run_leaves_searches_out(caplog: pytest.LogCaptureFixture) -> None:
    module = made()
    trainer(fast_dev_run=True, callbacks=[LearningRateFinder()]).fit(module)
    assert module.hparams["hparams"] == HPARAMS
    assert "LearningRateFinder is left out" in caplog.text
